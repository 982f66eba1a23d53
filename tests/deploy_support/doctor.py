"""The doctor's findings as JSON; needs nothing installed but what the engine itself needs."""

import asyncio
import json
from dataclasses import asdict

from toolfold.engines.process.doctor import examine

if __name__ == "__main__":
    print(json.dumps(asdict(asyncio.run(examine()))))
