-- A crash ends all streams, so it may also empty their counts.
ALTER TABLE topics_streamcount SET UNLOGGED;
