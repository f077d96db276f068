-- Bits per character of three corpora for 28 models, in a table of the README. The names are those of
-- the leaderboard and the full ids in the table of benchmarks.

with models as (
    from (values
        ('Llama-3-70b', 'meta-llama/Meta-Llama-3-70B'),
        ('Mixtral-8x22B-v0.1', 'mistralai/Mixtral-8x22B-v0.1'),
        ('Qwen2-72B', 'Qwen/Qwen2-72B'),
        ('Qwen1.5-110B', 'Qwen/Qwen1.5-110B'),
        ('DeepSeek-V2', 'deepseek-ai/DeepSeek-V2'),
        ('Mixtral-8x7B', 'mistralai/Mixtral-8x7B-v0.1'),
        ('Qwen-72b', 'Qwen/Qwen-72B'),
        ('Qwen-1.5-72b', 'Qwen/Qwen1.5-72B'),
        ('Llama-2-70b', 'meta-llama/Llama-2-70b-hf'),
        ('Qwen-1.5-32b', 'Qwen/Qwen1.5-32B'),
        ('Deepseek-llm-67b', 'deepseek-ai/deepseek-llm-67b-base'),
        ('Llama-3-8b', 'meta-llama/Meta-Llama-3-8B'),
        ('Yi-34b', '01-ai/Yi-34B'),
        ('Llama-1-65b', 'huggyllama/llama-65b'),
        ('Qwen-1.5-14b', 'Qwen/Qwen1.5-14B'),
        ('Qwen-14b', 'Qwen/Qwen-14B'),
        ('Llama-1-30b', 'huggyllama/llama-30b'),
        ('Mistral-7b', 'mistralai/Mistral-7B-v0.1'),
        ('Llama-2-13b', 'meta-llama/Llama-2-13b-hf'),
        ('Falcon-40b', 'tiiuae/falcon-40b'),
        ('Qwen-1.5-7b', 'Qwen/Qwen1.5-7B'),
        ('Qwen-7b', 'Qwen/Qwen-7B'),
        ('Llama-1-13b', 'huggyllama/llama-13b'),
        ('Llama-2-7b', 'meta-llama/Llama-2-7b-hf'),
        ('Yi-6b', '01-ai/Yi-6B'),
        ('Deepseek-llm-7b', 'deepseek-ai/deepseek-llm-7b-base'),
        ('Llama-1-7b', 'huggyllama/llama-7b'),
        ('Falcon-7b', 'tiiuae/falcon-7b')
    ) as models (name, model)
),

lines as (
    select
        unnest(string_split(content, chr(10))) as line,
        list_transform(string_split(trim(line, '| '), '|'), lambda cell: trim(cell)) as cells
    from read_text('README.md')
),

scores as (
    select
        cells[1] as name,
        unnest(['common_crawl', 'python', 'arxiv_math']) as benchmark,
        unnest(cells[2:4]) as score
    from lines
)

select
    model,
    benchmark,
    'bits_per_character' as metric,
    'lower' as direction,
    cast(score as double) as score
from scores
inner join models using (name)
