"""Every verb and query of the command line has an address, and every address is a command: neither door has its own."""

from fencepost.cli import main
from tests.console.test_schema import OPERATIONS

WAYS = {
    "start": ["start_run"],
    "runs": ["list_runs"],
    "show": ["show_run"],
    "trace": ["trace_run"],
    "signal": ["signal_run"],
    "callback": ["report", "report_by_address"],
    "approve": ["approve"],
    "cancel": ["cancel"],
    "resume": ["resume"],
    "reconcile": ["reconcile"],
    "retry": ["retry"],
    "settle": ["settle", "settle_conflict"],
    "compensate": ["compensate", "compensate_step"],
    "forward": ["forward"],
    "redecide": ["redecide"],
    "terminate": ["terminate"],
    "reopen": ["reopen"],
    "migrate": ["migrate", "rehearse"],
    "bulk": ["bulk"],
    "bulks": ["list_jobs"],
    "bulks show": ["show_job"],
    "bulks pause": ["pause_job"],
    "bulks resume": ["resume_job"],
    "proposals": ["list_proposals"],
    "confirm": ["confirm"],
    "decline": ["decline"],
    "contain": ["contain"],
    "release": ["release"],
    "contained": ["list_contained"],
    "queue": ["list_queues"],
    "queue pause": ["pause_queue"],
    "queue resume": ["resume_queue"],
    "schedule": ["list_schedules"],
    "schedule pause": ["pause_schedule"],
    "schedule resume": ["resume_schedule"],
    "schedule fire": ["fire_schedule"],
    "schedule remove": ["remove_schedule"],
    "contract": ["contract"],
    "alerts": ["list_alerts"],
    "metrics": ["read_metrics"],
    "health": ["read_health"],
    "audit": ["list_audit"],
    "audit verify": ["verify_audit"],
    "audit anchor": ["verify_audit"],  # its `last`
    "check": ["check"],
    "restored": ["restored", "close_lost_time"],
    "purge": ["purge"],
}
HERE_ALONE = {
    "worker": "works, and is a process",
    "doctor": "looks at the machine that it runs on",
    "copy": "reads a file, and writes a server",
    "console": "serves the addresses",
    "demo": "shows the machine at work",
    "token": "says who may call, which none who calls may widen",
    "token make": "says who may call, which none who calls may widen",
    "token revoke": "says who may call, which none who calls may widen",
    "account": "says who comes to the pages, which none who calls may widen",
    "account invite": "says who comes to the pages, which none who calls may widen",
    "account close": "says who comes to the pages, which none who calls may widen",
}
"""What is done at the machine, and why."""

FROM_OUTSIDE = {"wait_for_run": "`start --wait`", "take_event": "a provider's own"}


def test_every_command_has_an_address_or_a_reason_for_none() -> None:
    names = {one.__name__.replace("_", "-") for one in main.COMMANDS}
    names |= {f"{above.__name__} {one.__name__}" for above, below in main.BELOW.items() for one in below}
    assert WAYS.keys() | HERE_ALONE.keys() == names
    assert not WAYS.keys() & HERE_ALONE.keys()


def test_every_address_is_a_command() -> None:
    addresses = {one["operationId"] for one in OPERATIONS.values()}
    assert {one for ways in WAYS.values() for one in ways} | FROM_OUTSIDE.keys() == addresses
