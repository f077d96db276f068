"""A synthetic warehouse, built once per session by plain `dbt build`."""

from __future__ import annotations

import pytest
from dbt_harness import SHAPE, NewWarehouse, Warehouse
from made_up_warehouse import Shape, write_warehouse


@pytest.fixture(scope="session")
def new_warehouse(tmp_path_factory: pytest.TempPathFactory) -> NewWarehouse:
    """Write a shape into a fresh folder; nothing is built yet."""

    def write(shape: Shape) -> Warehouse:
        folder = tmp_path_factory.mktemp("warehouse")
        write_warehouse(folder / "data", shape)
        return Warehouse(folder / "data", folder / "tokenmart.duckdb")

    return write


@pytest.fixture(scope="session")
def built(new_warehouse: NewWarehouse) -> Warehouse:
    """`SHAPE`, built once."""
    warehouse = new_warehouse(SHAPE)
    warehouse.build()
    return warehouse
