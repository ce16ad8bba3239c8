"""`onefold doctor`: what about a topic, its brokers, clients and schedule can cause duplicates, reordering or loss.

`gather` collects facts, the `rules` are pure functions of them, and `diagnose` puts what they find in order.
"""

from onefold.diagnosis.diagnose import Diagnosis, diagnose
from onefold.diagnosis.facts import Facts, Landed
from onefold.diagnosis.findings import Finding, Severity
from onefold.diagnosis.gather import gather

__all__ = ["Diagnosis", "Facts", "Finding", "Landed", "Severity", "diagnose", "gather"]
