{{ variants_query() }}
