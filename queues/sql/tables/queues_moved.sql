-- The number of jobs that a queue moved to its dead letter topic. The row is deleted with the topic.
CREATE TABLE queues_moved (
    topic_id bigint PRIMARY KEY,
    jobs     bigint NOT NULL
);
