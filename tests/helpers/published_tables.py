"""What an extraction published, read back and compared."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from warehouse.paths import Workspace
from warehouse.store.token_files import STEP_NATS


def published(workspace: Workspace, problem: str = "tiny") -> dict[str, pa.Table]:
    return {
        str(path.parent.relative_to(workspace.tokens)): pq.read_table(path, partitioning=None)
        for path in sorted(workspace.tokens.glob(f"problem={problem}/**/tokens.parquet"))
    }


def assert_same(table: pa.Table, expected: pa.Table, nats: float = 1e-5) -> None:
    """The same rows; floats may differ in the last bits (BLAS follows memory alignment), which
    may round to the next step of those that are stored in steps."""
    assert table.schema.equals(expected.schema) and table.num_rows == expected.num_rows
    for field in expected.schema:
        ours, wanted = table[field.name].to_numpy(), expected[field.name].to_numpy()
        if pa.types.is_floating(field.type):
            near = nats + STEP_NATS.get(field.name, 0.0)
            np.testing.assert_allclose(ours, wanted, rtol=0, atol=near, err_msg=field.name)
        elif field.name == "rank":
            assert np.abs(ours - wanted).max() <= 1
        else:
            np.testing.assert_array_equal(ours, wanted, err_msg=field.name)
