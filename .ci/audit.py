"""Whether a vulnerability is known of anything that requirements.lock installs. Part of `make check`.

A known one fails. That nobody can be asked fails nothing, and is said.
"""

import json
import re
import subprocess
import sys

AUDIT = ["-m", "pip_audit", "-r", "requirements.lock", "--require-hashes", "--disable-pip", "-f", "json"]
UNREACHABLE = re.compile(
    r"ConnectionError|Could not connect|ConnectTimeout|ReadTimeout|ProxyError|SSLError|ServiceError"
)


def main() -> str | None:
    """Returns what fails the check; None when nothing does."""
    done = subprocess.run([sys.executable, *AUDIT, "--progress-spinner", "off"], capture_output=True, text=True)
    try:
        audited = json.loads(done.stdout)["dependencies"]
    except ValueError:
        if UNREACHABLE.search(done.stderr):
            print("pip-audit: the vulnerability service cannot be reached, so nothing was audited.")
            return None
        return f"pip-audit failed:\n{done.stderr}"
    found = [
        f"{each['name']} {each['version']}: {known['id']}, mended in {', '.join(known['fix_versions']) or 'no version'}"
        for each in audited
        for known in each.get("vulns", [])
    ]
    unknown = sum("skip_reason" in each for each in audited)
    if unknown:
        print(f"pip-audit: the vulnerability service does not know {unknown} of {len(audited)} packages.")
    return "\n".join(["pip-audit found vulnerabilities:", *found]) if found else None


if __name__ == "__main__":
    sys.exit(main())
