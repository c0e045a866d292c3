"""Print the JSON schema of a record."""

import json

from results.record.schema import schema

print(json.dumps(schema(), indent=1))
