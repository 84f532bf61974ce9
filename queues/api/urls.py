"""Table of contents of the calls on queues."""

from queues.api import jobs, redrive, schedules

endpoints = (
    jobs.claim_jobs,
    jobs.ack_jobs,
    jobs.nack_jobs,
    jobs.extend_jobs,
    redrive.redrive_letters,
    schedules.list_schedules,
    schedules.put,
    schedules.get,
    schedules.delete,
)
