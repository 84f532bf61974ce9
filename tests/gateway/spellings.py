"""Spellings of paths, as clients can encode their fixed parts."""

ENCODED = ["/v0/%74opics/{}/records", "/%76%30/topics/{}/records", "/v0/topics/{}/%72ecords"]
ENCODED_APPENDS = ["/v0/%74opics/{}", "/%76%30/topics/{}"]
ENCODED_DELETES = ["/v0/%74opics/{}/delete", "/v0/topics/{}/%64elete"]
WITH_SLASH = ["/v0%2Ftopics%2F{}/records", "/v0/topics%2f{}/records", "/v0/topics/{}%2Frecords"]
