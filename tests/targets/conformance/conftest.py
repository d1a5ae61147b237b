"""A place of each kind for each test; those that need a real server run where `make test-services` asks for them."""

import os
from contextlib import closing, contextmanager
from itertools import count

import pytest

from tests.services import aws, etcd, wanted
from tests.targets.conformance import kinds

_numbers = count(1)


@pytest.fixture(scope="session")
def etcd_address(tmp_path_factory):
    with _or_said(etcd.started(tmp_path_factory.mktemp("etcd"))) as address:
        yield address


@pytest.fixture(scope="session")
def aws_address():
    with aws.started() as address:
        aws.client("s3", address).create_bucket(
            Bucket="plans", CreateBucketConfiguration={"LocationConstraint": aws.REGION}
        )
        aws.client("dynamodb", address).create_table(
            TableName="accounts",
            KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST",
        )
        yield address


@contextmanager
def _or_said(service):
    """Skip with a sentence where a service is missing, or fail where skipping is no option."""
    try:
        address = service.__enter__()
    except LookupError as missing:
        (pytest.fail if wanted.must_be_there() else pytest.skip)(str(missing))
    try:
        yield address
    finally:
        service.__exit__(None, None, None)


@pytest.fixture(params=kinds.every())
def place(request, tmp_path):
    kind = request.param
    if kind in kinds.LOCAL:
        with kinds.local(kind, tmp_path) as one:
            yield one
        return
    match kind:
        case "psycopg":
            yield _psycopg(request.getfixturevalue("postgres_server").url())
        case "sqlalchemy on postgresql":
            url = request.getfixturevalue("postgres_server").url().replace("postgresql:", "postgresql+psycopg:")
            yield kinds.sqlalchemy_on(url, "postgresql+psycopg://127.0.0.1:9/nobody")
        case "etcd":
            with closing(kinds.Etcd(request.getfixturevalue("etcd_address"))) as one:
                yield one
        case "s3":
            yield kinds.Objects(request.getfixturevalue("aws_address"))
        case "dynamodb":
            yield kinds.Dynamo(request.getfixturevalue("aws_address"))
        case "consul":
            address = os.environ[kinds.CONSUL]
            with closing(kinds.Consul(address if "://" in address else f"http://{address}")) as one:
                yield one


def _psycopg(url):
    import psycopg

    return kinds.Sql(lambda: psycopg.connect(url), lambda: psycopg.connect("postgresql://127.0.0.1:9/nobody"), "%s")


@pytest.fixture
def resource():
    """A resource that no other test uses, with a name that tempts a target to split or to decode it."""
    return f"account:{os.getpid()}-{next(_numbers)}/ä b?x=1#%41"
