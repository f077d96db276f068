{# Relations that this plugin adds to those of the core and of other plugins. The name's end is the
   plugin's; what comes before `__` says where the rows go. #}

{% macro adds_metric_values__benchmarks() %}{{ return(ref('early_scores')) }}{% endmacro %}

{% macro adds_metric_values__models() %}{{ return(ref('model_score_values')) }}{% endmacro %}

{% macro adds_metric_parts__models() %}{{ return(ref('model_score_documents')) }}{% endmacro %}

{% macro adds_metric_parts__items() %}{{ return(ref('eval_item_parts')) }}{% endmacro %}

{% macro adds_metric_catalog__models() %}{{ return(ref('model_score_catalog')) }}{% endmacro %}

{% macro adds_metric_catalog__benchmarks() %}{{ return(ref('early_score_catalog')) }}{% endmacro %}

{% macro adds_item_scores__benchmarks() %}{{ return(ref('eval_item_metrics')) }}{% endmacro %}
