"""The dbt project built from parts: shards of some models each, or what another build handed on."""
