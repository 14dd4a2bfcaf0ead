"""The record, the ledger and the contracts: numpy only."""
