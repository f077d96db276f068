-- Bits per byte of 263 documents, and benchmarks, of 89 models. A column is named
-- ('family', 'model'); a model of two families has the same values in both and is one of the first
-- family. Errors are converted to accuracies. Numbers of parameters are those in the models' names,
-- as in 7b1 or 1_6b.

with cells as (
    unpivot (
        from read_csv(
            'examples/get_error_and_bpb/bpb_csvs/chunked_synthetic_sample_bpb_id.csv',
            header = true, all_varchar = true
        )
    ) on columns('^\(') into name pair value text
    union all by name
    unpivot (
        from read_csv(
            'examples/get_error_and_bpb/error_csvs/error.csv', header = true, all_varchar = true
        )
    ) on columns('^\(') into name pair value text
),

columns_in_order as (
    select
        trim(id) as document,
        benchmark,
        regexp_extract(pair, '^\(''(.*)'', ''(.*)''\)$', ['family', 'model']) as run,
        cast(text as double) as value,
        row_number() over () as place
    from cells
),

models as (
    select
        run.model as model,
        arg_min(run.family, place) as family,
        regexp_extract(
            split_part(run.model, '/', -1),
            '(?:^|[^\dx.])(\d+(?:[._]\d+)?)([bBmM])(\d?)(?:$|[^A-Za-z])',
            ['number', 'unit', 'tenths']
        ) as size
    from columns_in_order
    group by run.model
),

sized as (
    select
        model,
        family,
        try_cast(
            replace(size.number, '_', '.') || if(size.tenths = '', '', '.' || size.tenths) as double
        ) as number,
        if(lower(size.unit) = 'b', 1e9, 1e6) as unit
    from models
)

select distinct
    model,
    family,
    cast(round(number * unit) as bigint) as parameters,
    coalesce(benchmark, 'entigraph') as benchmark,
    case
        when benchmark is null then 'bits_per_byte'
        when benchmark like 'lambada%' then 'perplexity'
        else 'accuracy'
    end as metric,
    document,
    if(metric = 'accuracy', 'higher', 'lower') as direction,
    if(metric = 'accuracy', round(1 - value, 12), value) as score
from columns_in_order
inner join sized on columns_in_order.run.model = sized.model
