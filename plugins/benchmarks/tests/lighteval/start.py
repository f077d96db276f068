"""Make a tiny model and its data in a folder and start lighteval's own command there, offline.

`python start.py <folder>` with an interpreter that has lighteval; `tasks.py` has the tasks.
"""

from __future__ import annotations

import json
import os
import random
import sys
from pathlib import Path
from types import SimpleNamespace

COLOURS = ("red", "blue", "green")
THINGS = ("cup", "hat", "door", "stone", "bird", "tree", "book", "wall")
DOCUMENTS = {"train": 6, "validation": 13}


def rows(split: str) -> list[dict[str, object]]:
    """Questions with three short answers, and a text."""
    draw = random.Random(split)
    return [
        {
            "question": f"{number} colour of {' '.join(draw.choices(THINGS, k=4))}?",
            "choices": [f" {colour}" for colour in draw.sample(COLOURS, 3)],
            "gold": draw.randrange(3),
            "text": " ".join(draw.choices(THINGS, k=draw.randint(5, 20))),
        }
        for number in range(DOCUMENTS[split])
    ]


def make_model(folder: Path) -> None:
    """A model that has learnt to answer questions with a colour, any of the three."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    draw = random.Random(0)
    texts = [f"{row['question']} {draw.choice(COLOURS)}\n" for row in rows("train") * 8]
    tokens = Tokenizer(models.BPE(unk_token=None))
    tokens.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokens.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokens.train_from_iterator(
        texts,
        trainers.BpeTrainer(
            vocab_size=400, special_tokens=["<s>", "</s>"], initial_alphabet=alphabet
        ),
    )
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=tokens, bos_token="<s>", eos_token="</s>", pad_token="</s>"
    )
    torch.manual_seed(0)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(tokenizer), hidden_size=32, intermediate_size=64,
            num_hidden_layers=1, num_attention_heads=4, max_position_embeddings=512,
            bos_token_id=0, eos_token_id=1,
        )
    )  # fmt: skip
    step = torch.optim.AdamW(model.parameters(), lr=1e-2)
    batch = tokenizer(texts, return_tensors="pt", padding=True)
    labels = batch["input_ids"].masked_fill(batch["attention_mask"] == 0, -100)
    for _ in range(40):
        step.zero_grad()
        model(
            input_ids=batch["input_ids"], attention_mask=batch["attention_mask"], labels=labels
        ).loss.backward()
        step.step()
    # several answers to one question are drawn
    model.generation_config.do_sample = True
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def main() -> None:
    folder = Path(sys.argv[1]).resolve()
    make_model(folder / "model")
    (folder / "data").mkdir()
    for split in DOCUMENTS:
        lines = "".join(json.dumps(row) + "\n" for row in rows(split))
        (folder / "data" / f"{split}.jsonl").write_text(lines)
    os.environ["LIGHTEVAL_TEST_DATA"] = str(folder / "data")
    os.chdir(folder)

    import lighteval.__main__ as program
    import requests
    from huggingface_hub import HfApi
    from lighteval.tasks import lighteval_task

    # its built-in tasks look for a file and a model on the web when they are loaded
    requests.get = lambda *_, **__: SimpleNamespace(status_code=404)  # type: ignore[assignment]
    HfApi.list_models = lambda *_, **__: [True]  # type: ignore[method-assign]
    old = "suite" in lighteval_task.LightevalTaskConfig.__dataclass_fields__
    shots = {"colour:pick": 2, "colour:like": 0, "colour:say": 1, "colour:often": 0, "read": 0}
    if old:
        model = "pretrained=model,dtype=float32,batch_size=4"
        tasks = [f"community|{name}|{number}|0" for name, number in shots.items()]
    else:
        model = "model_name=model,dtype=float32,batch_size=4,generation_parameters={temperature:1}"
        tasks = [f"{name}|{number}" for name, number in shots.items()]
    own = str(Path(__file__).with_name("tasks.py"))
    sys.argv = [
        "lighteval", "accelerate", model, ",".join(tasks),
        "--custom-tasks", own, "--output-dir", "out", "--save-details",
    ]  # fmt: skip
    program.app()


if __name__ == "__main__":
    main()
