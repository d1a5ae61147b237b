"""The demo behind `fencepost demo`: real workers are killed while invoices go through."""
