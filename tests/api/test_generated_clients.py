"""Clients in TypeScript, Go and Rust that generators make from /v0/schema. A short program with each compiles and runs."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from tests.deadlines import DEADLINE
from tests.instances import Instance

pytestmark = pytest.mark.deep(101)


PRINTED = ["1", '{"id":7} true', "topic_not_found"]
NPM = ("openapi-typescript@7", "openapi-fetch@0.14", "typescript@5", "@types/node@20")
UNREACHABLE = re.compile(  # as npm, Go and Cargo say it
    r"\b(ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|E40[13])\b"
    r"|dial tcp|40[13] Forbidden|Could(n't| not) (resolve|connect)|Connection refused|timed out"
)
TYPESCRIPT = """
import createClient from "openapi-fetch";
import type { components, paths } from "./api.js";

const client = createClient<paths>({ baseUrl: process.argv[2] });
const params = { path: { topic: process.argv[3] } };
const done = await client.POST("/v0/topics/{topic}", { params, body: { records: [{ data: { id: 7 }, tag: "order:7" }] } });
console.log(done.data?.first_seq);
const read = await client.POST("/v0/topics/{topic}/diff", { params, body: {} });
console.log(JSON.stringify(read.data?.records[0].data), read.data?.caught_up);
const absent = await client.GET("/v0/topics/{topic}", { params: { path: { topic: "absent" } } });
const code: components["schemas"]["Code"] | undefined = absent.error?.error.code;
console.log(code);
"""
TSC = ["--strict", "--target", "es2022", "--module", "nodenext", "--moduleResolution", "nodenext", "--skipLibCheck"]
BRIEF = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]  # of a JVM that runs for seconds
GENERATOR = "org/openapitools/openapi-generator-cli/7.25.0/openapi-generator-cli-7.25.0.jar"
GENERATOR_SHA256 = "41ce4f6b07f196676439d710759fa1ced7a08066d06ff1bf314681470289efae"
GO = """
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	topics "example.com/topics"
)

func main() {
	configuration := topics.NewConfiguration()
	configuration.Servers = topics.ServerConfigurations{{URL: os.Args[1]}}
	client, ctx := topics.NewAPIClient(configuration), context.Background()
	record := *topics.NewNewRecord(map[string]int{"id": 7})
	record.SetTag("order:7")
	body := topics.AppendRequest{Append: topics.NewAppend([]topics.NewRecord{record})}
	done, _, _ := client.RecordsAPI.Append(ctx, os.Args[2]).AppendRequest(body).Execute()
	fmt.Println(done.GetFirstSeq())
	read, _, _ := client.RecordsAPI.Read(ctx, os.Args[2]).Diff(*topics.NewDiff()).Execute()
	data, _ := json.Marshal(read.Records[0].Data)
	fmt.Println(string(data), read.CaughtUp)
	_, _, err := client.TopicsAPI.GetTopic(ctx, "absent").Execute()
	fmt.Println(err.(*topics.GenericOpenAPIError).Model().(topics.Error).Error.Code)
}
"""
CARGO = """
[package]
name = "program"
edition = "2021"

[dependencies]
serde_json = "1"
topics = { path = "topics", default-features = false }

[profile.dev]
debug = false
incremental = false
"""
RUST = """
use topics::apis::{configuration::Configuration, records_api, topics_api, Error};
use topics::models::{Append, AppendRequest, Diff, NewRecord};

fn main() {
    let given: Vec<String> = std::env::args().collect();
    let configuration = Configuration { base_path: given[1].clone(), ..Configuration::new() };
    let topic = &given[2];
    let mut record = NewRecord::new(Some(serde_json::json!({"id": 7})));
    record.tag = Some(Some("order:7".to_owned()));
    let body = AppendRequest::Append(Box::new(Append::new(vec![record])));
    let done = records_api::append(&configuration, topic, body, None, None, None).unwrap();
    println!("{}", done.first_seq);
    let read = records_api::read(&configuration, topic, Some(Diff::new())).unwrap();
    println!("{} {}", read.records[0].data.as_ref().unwrap(), read.caught_up);
    // All refusals have one shape, so the generated enum takes each for its first variant.
    match topics_api::get_topic(&configuration, "absent", None) {
        Err(Error::ResponseError(answer)) => match answer.entity {
            Some(topics_api::GetTopicError::Status400(refusal)) => println!("{}", refusal.error.code),
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}
"""


@pytest.fixture
def folder(server: Instance, tmp_path: Path) -> Path:
    """A folder with the schema of a running server."""
    with urllib.request.urlopen(f"{server.url}/v0/schema", timeout=DEADLINE) as answer:
        (tmp_path / "schema.json").write_bytes(answer.read())
    return tmp_path


def run(folder: Path, *command: str) -> list[str]:
    """Run a command in the folder. Returns the lines of its output, and fails with both outputs."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


@pytest.mark.skipif(shutil.which("npm") is None, reason="a client in TypeScript needs Node.js with npm")
def test_typescript(server: Instance, folder: Path, name: str) -> None:
    (folder / "package.json").write_text('{"type": "module", "private": true}')
    fetch(folder, "npm", "install", "--fetch-retries=1", "--no-audit", "--no-fund", *NPM)
    run(folder, "npx", "openapi-typescript", "schema.json", "-o", "api.d.ts")
    (folder / "program.ts").write_text(TYPESCRIPT)
    run(folder, "npx", "tsc", *TSC, "program.ts")
    assert run(folder, "node", "program.js", server.url, name) == PRINTED


@pytest.mark.skipif(
    None in map(shutil.which, ("go", "java")), reason="a client in Go needs Go, and Java for its generator"
)
def test_go(server: Instance, folder: Path, name: str) -> None:
    settings = "packageName=topics,withGoMod=true,isGoSubmodule=false"
    generate = ["generate", "-g", "go", "-i", "schema.json", "-o", "topics", "--additional-properties", settings]
    run(folder, "java", *BRIEF, "-jar", str(generator()), *generate)
    package = folder / "topics"
    (package / "go.mod").write_text("module example.com/topics\n\ngo 1.23\n")
    fetch(package, "go", "get", "gopkg.in/validator.v2@v2.0.1")  # the generated client imports it
    (package / "program").mkdir()
    (package / "program" / "main.go").write_text(GO)
    run(package, "go", "build", "-ldflags=-s -w", "-o", "../program", "./program")
    assert run(folder, "./program", server.url, name) == PRINTED


@pytest.mark.skipif(
    None in map(shutil.which, ("cargo", "java")), reason="a client in Rust needs Cargo, and Java for its generator"
)
def test_rust(server: Instance, folder: Path, name: str) -> None:
    settings = "packageName=topics,supportAsync=false"
    generate = ["generate", "-g", "rust", "-i", "schema.json", "-o", "topics", "--additional-properties", settings]
    run(folder, "java", *BRIEF, "-jar", str(generator()), *generate)
    (folder / "Cargo.toml").write_text(CARGO)
    (folder / "src").mkdir()
    (folder / "src" / "main.rs").write_text(RUST)
    fetch(folder, "cargo", "fetch", "--config", "net.retry=1")
    built = cache() / "cargo"  # with the crates that the client needs, which take a minute
    run(folder, "cargo", "build", "--quiet", "--offline", "--target-dir", str(built))
    assert run(folder, str(built / "debug" / "program"), server.url, name) == PRINTED


def fetch(folder: Path, *command: str) -> None:
    """Runs a command that downloads libraries. Skips the test if their server is not reachable."""
    fetched = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if UNREACHABLE.search(fetched.stderr):
        pytest.skip(f"NOT TRIED: {' '.join(command[:2])} does not reach its server")
    assert fetched.returncode == 0, fetched.stderr


def cache() -> Path:
    """Returns the folder of what is kept between runs."""
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "topics-tests"


def generator() -> Path:
    """Returns openapi-generator from Maven Central, which is kept between runs."""
    kept = cache() / Path(GENERATOR).name
    if not kept.exists() or hashlib.sha256(kept.read_bytes()).hexdigest() != GENERATOR_SHA256:
        kept.parent.mkdir(parents=True, exist_ok=True)
        part = kept.with_suffix(f".{os.getpid()}")
        try:
            with urllib.request.urlopen(f"https://repo1.maven.org/maven2/{GENERATOR}", timeout=5 * DEADLINE) as answer:
                part.write_bytes(answer.read())
        except urllib.error.URLError as error:
            pytest.skip(f"NOT TRIED: Maven Central is not reachable: {error}")
        part.replace(kept)
        assert hashlib.sha256(kept.read_bytes()).hexdigest() == GENERATOR_SHA256
    return kept
