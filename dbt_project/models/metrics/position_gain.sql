{%- set bits = {
    'numerator': 'sum(gain) / ln(2)', 'denominator': 'max(byte_end) - min(byte_start)',
} %}
{%- set half = 'char_start >= 0.5 * text_characters' %}
{%- set quarter = 'char_start >= 0.75 * text_characters' %}
{%- set inside = ' and char_start < text_characters' %}
{%- set parts = {
    'first_quarter': {'where': 'position < 0.25 * document_tokens'},
    'second_quarter': {
        'where': 'position >= 0.25 * document_tokens and position < 0.5 * document_tokens'
    },
    'third_quarter': {
        'where': 'position >= 0.5 * document_tokens and position < 0.75 * document_tokens'
    },
    'second_half': {'where': 'position >= 0.5 * document_tokens'},
    'last_tenth': {'where': 'position >= 0.9 * document_tokens'},
    'second_half_of_text': {'where': half ~ inside, 'aggregation': 'micro'},
    'second_half_of_text_bits_per_byte': dict(bits, where=half ~ inside, aggregation='micro'),
    'last_quarter_of_text': {'where': quarter ~ inside, 'aggregation': 'micro'},
    'last_quarter_of_text_bits_per_byte': dict(bits, where=quarter ~ inside, aggregation='micro'),
} %}
{%- for first in [4096, 8192, 16384] %}
    {%- do parts.update({'tokens_' ~ first ~ '_' ~ 2 * first: {
        'where': 'position >= ' ~ first ~ ' and position < ' ~ 2 * first
    }}) %}
{%- endfor %}

{{ metric(
    over = 'common_pairs',
    numerator = 'sum(gain)',
    aggregations = {'_macro': 'macro'},
    variants = {'last_quarter': {'where': 'position >= 0.75 * document_tokens'}},
    grid = parts,
) }}
