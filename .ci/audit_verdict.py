#!/usr/bin/env python3
"""Judges a report of the audit kit: only checks on a list may fail.

    audit_verdict.py exactly|at-most REPORT.json LIST

`exactly`: a check on the list that passes is an error too, so that the list shrinks as features arrive.
"""
import json
import sys

mode, report_path, list_path = sys.argv[1:]
with open(report_path) as file:
    report = json.load(file)
with open(list_path) as file:
    allowed = {line.split("#")[0].strip() for line in file} - {""}

state = {}
for test in report["tests"]:
    # A name can stand in several groups; it has passed if it passed in all.
    worst = "failed" if "failed" in (test["state"], state.get(test["name"])) else test["state"]
    state[test["name"]] = worst
failed = {name for name, what in state.items() if what == "failed"}
named = sum(test["state"] == "failed" for test in report["tests"])

complaints = [f"fails, and is not on {list_path}: {name}" for name in sorted(failed - allowed)]
if mode == "exactly":
    complaints += [f"passes, so take it off {list_path}: {name}" for name in sorted(allowed - failed)]
if report["failed"] > named:
    complaints.append(f"{report['failed'] - named} failures have no name in the report")
if not report["passed"]:
    complaints.append("nothing passed")
print(f"{report['passed']} passed, {report['failed']} failed ({len(allowed)} on the list), {report['skipped']} skipped")
for line in complaints:
    print(f"  {line}")
sys.exit(bool(complaints))
