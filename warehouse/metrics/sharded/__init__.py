"""The dbt project built in shards, each of some models, on this machine or on Ray."""
