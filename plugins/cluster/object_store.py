"""Connection to an object store, and error messages of one line for its failures."""

from __future__ import annotations

import os
from functools import lru_cache
from typing import Any

from warehouse.errors import TokenmartError
from warehouse.remote import ChangedError, UnreachableError

SCHEME = "s3://"
_AGAIN = "then run the same command again; what was finished is kept"
_LOST_RACE = {"PreconditionFailed", "ConditionalRequestConflict", "412", "409"}
_KEYS = {
    "AccessDenied", "ExpiredToken", "InvalidAccessKeyId", "InvalidClientTokenId", "InvalidToken",
    "RequestTimeTooSkewed", "SignatureDoesNotMatch", "401", "403",
}  # fmt: skip


def explained(path: str, bucket: str, error: Exception) -> Exception:
    """An error of the store in one line; a missing object stays a FileNotFoundError."""
    cause: BaseException = error
    while cause.__cause__ is not None:
        cause = cause.__cause__
    response = getattr(cause, "response", None) or {}
    code = str(response.get("Error", {}).get("Code", ""))
    text = " ".join(str(cause).split())[:200] or type(cause).__name__
    if code in _LOST_RACE:
        return ChangedError(f"{path}: another process has written it meanwhile, {_AGAIN}")
    if code == "NoSuchBucket":
        return UnreachableError(
            f"{SCHEME}{bucket}: no such bucket; create it, or correct the address in "
            "TOKENMART_STORE"
        )
    if isinstance(error, FileNotFoundError):
        return error
    if code in _KEYS or isinstance(error, PermissionError):
        return UnreachableError(
            f"{path}: the store refuses the key ({text}); renew AWS_ACCESS_KEY_ID and "
            f"AWS_SECRET_ACCESS_KEY, AWS_PROFILE or the machine's role, {_AGAIN}"
        )
    if "credentials" in type(cause).__name__.lower():
        return UnreachableError(
            f"{path}: no key for the store ({text}); set AWS_ACCESS_KEY_ID and "
            "AWS_SECRET_ACCESS_KEY, or AWS_PROFILE"
        )
    return UnreachableError(
        f"{path}: the store didn't answer ({text}); look at the network and at AWS_ENDPOINT_URL, "
        f"{_AGAIN}"
    )


@lru_cache(maxsize=4)
def _filesystem(process: int) -> Any:
    try:
        import s3fs
    except ImportError as error:
        raise TokenmartError(
            "TOKENMART_STORE: s3fs isn't installed; pip install -c requirements.lock -e '.[s3]'"
        ) from error
    store = s3fs.S3FileSystem(
        use_listings_cache=False,
        skip_instance_cache=True,
        default_block_size=1 << 20,
        config_kwargs={"connect_timeout": 10, "read_timeout": 60, "retries": {"max_attempts": 3}},
    )
    store.retries = 2
    # a lost connection is reported by the failing call, not by the event loop too
    store.loop.call_soon_threadsafe(store.loop.set_exception_handler, lambda *_: None)
    return store


def filesystem() -> Any:
    """This process's s3fs; credentials and endpoint come from the environment, as for every AWS
    tool.

    Raises:
        TokenmartError: s3fs isn't installed.
    """
    return _filesystem(os.getpid())
