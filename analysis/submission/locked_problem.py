"""Constants of the locked problem: its models and the path of its target file."""

from __future__ import annotations

from pathlib import Path

PROBLEM = "no4k"

TARGET_PATH = Path("results/downstream/downstream_avg.ruler32_longbench_lt32k.no4k.json")

MODELS = (
    "01-ai/Yi-6B-200K",
    "In2Training/FILM-7B",
    "Leooyii/Longlora_32k_Slimpajama_1B",
    "Leooyii/NTK_32k_Slimpajama_1B",
    "Leooyii/NTK_64k_Slimpajama_1B",
    "Leooyii/NTK_64k_Slimpajama_2B",
    "Leooyii/PI_32k_Slimpajama_1B",
    "Qwen/Qwen2-0.5B-Instruct",
    "Qwen/Qwen2-1.5B-Instruct",
    "Qwen/Qwen2-7B-Instruct",
    "Qwen/Qwen2.5-0.5B-Instruct",
    "Qwen/Qwen2.5-1.5B-Instruct",
    "Qwen/Qwen2.5-7B-Instruct",
    "Qwen/Qwen2.5-14B-Instruct",
    "Qwen/Qwen2.5-Coder-1.5B-Instruct",
    "Qwen/Qwen2.5-Coder-7B-Instruct",
    "mistralai/Mistral-7B-Instruct-v0.2",
)
