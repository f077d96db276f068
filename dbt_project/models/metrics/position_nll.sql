{%- set bits = {
    'numerator': 'sum(nll) / ln(2)', 'denominator': 'max(byte_end) - min(byte_start)',
} %}
{%- set parts = {} %}
{%- for first, past in [
    (0, 256), (256, 512), (512, 1024), (1024, 2048), (2048, 4096), (4096, 8192), (8192, 16384),
    (16384, 32768),
] %}
    {%- do parts.update({'tokens_' ~ first ~ '_' ~ past: {
        'where': 'position >= ' ~ first ~ ' and position < ' ~ past
    }}) %}
{%- endfor %}
{%- for name, where in [
    ('first_quarter', 'position < 0.25 * document_tokens'),
    ('second_quarter', 'position >= 0.25 * document_tokens and position < 0.5 * document_tokens'),
    ('third_quarter', 'position >= 0.5 * document_tokens and position < 0.75 * document_tokens'),
    ('last_quarter', 'position >= 0.75 * document_tokens'),
    ('second_half', 'position >= 0.5 * document_tokens'),
    ('last_tenth', 'position >= 0.9 * document_tokens'),
] %}
    {%- do parts.update({
        name: {'where': where}, name ~ '_bits_per_byte': dict(bits, where=where)
    }) %}
{%- endfor %}
{%- set characters = {
    'first_quarter_of_text': 'char_start < 0.25 * text_characters',
    'last_quarter_of_text': 'char_start >= 0.75 * text_characters and char_start < text_characters',
    'second_half_of_text': 'char_start >= 0.5 * text_characters and char_start < text_characters',
    'characters_16384_32768': 'char_start >= 16384 and char_start < 32768',
    'characters_65536_131072': 'char_start >= 65536 and char_start < 131072',
} %}
{%- for name, where in characters.items() %}
    {%- do parts.update({name: dict(bits, where=where)}) %}
    {%- if name.startswith('characters') %}
        {%- do parts[name].update(aggregation='micro') %}
    {%- endif %}
{%- endfor %}

{{ metric(
    over = 'tokens',
    numerator = 'sum(nll)',
    aggregations = {'_macro': 'macro'},
    variants = {
        'first_quarter_of_text': parts.pop('first_quarter_of_text'),
        'last_quarter_of_text': parts.pop('last_quarter_of_text'),
    },
    grid = parts,
) }}
