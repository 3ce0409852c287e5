"""Events that a ledger records without anything being counted or answered."""

from __future__ import annotations

from margrave.privacy.accounting.events import Event
from margrave.privacy.ledger.history import Answer
from margrave.privacy.ledger.ledger import Ledger


def record_event(ledger: Ledger, event: Event) -> None:
    """Spend an event as a verb does whose answer is empty."""
    ledger.ask([event], lambda: None, lambda _: Answer(()))
