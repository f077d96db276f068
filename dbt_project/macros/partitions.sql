{#-
  Incremental tables by partition. A partition, by default a (problem, model_id, probe),
  carries the version of what it was computed from: the content of its token files, the text
  of the model's SQL and the thresholds in use. `drop_stale_partitions` (a pre-hook) forgets
  partitions that changed or vanished; `missing_partitions` lists those to compute.
-#}

{% macro partition_version(settings) -%}
    {%- if execute -%}
    md5(concat(conditions.version, '{{ local_md5(model.raw_code ~ (settings | string)) }}'))
    {%- else -%}
    conditions.version
    {%- endif -%}
{%- endmacro %}

{% macro same_partition(keys) -%}
    {%- for key in keys -%}
    known.{{ key }} = conditions.{{ key }}{% if not loop.last %} and {% endif %}
    {%- endfor -%}
{%- endmacro %}

{% macro missing_partitions(
    conditions, settings=[], keys=['problem', 'model_id', 'probe']
) -%}
    select
        conditions.* exclude (version),
        {{ partition_version(settings) }} as version
    from {{ conditions }} as conditions
    {% if is_incremental() -%}
    where not exists (
        select 1 from {{ this }} as known
        where {{ same_partition(keys) }}
    )
    {%- endif %}
{%- endmacro %}

{% macro drop_stale_partitions(
    conditions, settings=[], keys=['problem', 'model_id', 'probe']
) -%}
    {%- if is_incremental() -%}
    delete from {{ this }} as known
    where not exists (
        select 1 from {{ conditions }} as conditions
        where {{ same_partition(keys) }}
            and {{ partition_version(settings) }} = known.version
    )
    {%- else -%}
    select 1
    {%- endif -%}
{%- endmacro %}
