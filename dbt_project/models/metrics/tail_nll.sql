{%- set bits = {
    'numerator': 'sum(nll) / ln(2)', 'denominator': 'max(byte_end) - min(byte_start)',
} %}
{%- set parts = {} %}
{%- for k in [32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384] %}
    {%- set where = 'position >= document_tokens - ' ~ k %}
    {%- do parts.update({
        'last_' ~ k: {'where': where},
        'last_' ~ k ~ '_bits_per_byte': dict(bits, where=where),
    }) %}
{%- endfor %}
{%- for k in [4096, 16384, 32768] %}
    {%- do parts.update({'last_' ~ k ~ '_characters': dict(
        bits,
        where='char_start >= text_characters - ' ~ k ~ ' and char_start < text_characters',
    )}) %}
{%- endfor %}

{{ metric(
    over = 'tokens',
    numerator = 'sum(nll)',
    aggregations = {'_macro': 'macro'},
    variants = {'last_4096_characters': parts.pop('last_4096_characters')},
    grid = parts,
) }}
