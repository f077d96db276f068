{#- Both parts have `width` tokens; a document counts if it has all of them. -#}
{%- set scores = {} %}
{%- for name, early, late, width in [
    ('olsson_50_500_width_32', 50, 500, 32),
    ('from_256_to_2048', 256, 2048, 256),
    ('from_1024_to_8192', 1024, 8192, 1024),
    ('from_1024_to_24576', 1024, 24576, 1024),
] %}
    {%- set half = width // 2 %}
    {%- do scores.update({name: {
        'numerator': 'avg(nll) filter (where position >= ' ~ (late - half)
            ~ ') - avg(nll) filter (where position < ' ~ (early + half) ~ ')',
        'denominator': 'if(count(*) = ' ~ 2 * width ~ ', 1, null)',
        'where': 'position >= ' ~ (early - half) ~ ' and position < ' ~ (early + half)
            ~ ' or position >= ' ~ (late - half) ~ ' and position < ' ~ (late + half),
    }}) %}
{%- endfor %}

{{ metric(
    over = 'tokens',
    aggregation = 'macro',
    aggregations = {'_median': 'median'},
    variants = {'olsson_50_500_width_32': scores.pop('olsson_50_500_width_32')},
    grid = dict(scores, olsson_50_500={
        'numerator': 'avg(nll) filter (where position >= 500)'
            ~ ' - avg(nll) filter (where position < 51)',
        'denominator': 'if(count(*) = 2, 1, null)',
        'where': 'position = 50 or position = 500',
    }),
) }}
