"""Services moto does not have, or has too differently to be patched. Each answers a request or passes it on."""
