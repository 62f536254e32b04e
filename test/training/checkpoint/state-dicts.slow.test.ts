import assert from 'node:assert/strict';
import { test } from 'node:test';
import { errorOf, resultOf, runActions, tinyConfig } from './runs';

interface DictReport {
  readonly changed: readonly string[];
  readonly own: number;
  readonly lone: number;
  readonly isRank0: boolean;
  readonly names: number;
  readonly numParams: number;
  readonly states: readonly string[];
  readonly group: { readonly steps: number; readonly params: readonly string[] };
  readonly misfit: string;
  readonly swapped: string;
}

test("state dicts have torch's names, and rank 0 can ask for the optimizer's alone", async () => {
  const byRank = await runActions(2, [
    { do: 'train', config: tinyConfig('FULL_SHARD'), steps: 2 },
    { do: 'stateDicts', other: tinyConfig('NO_SHARD', { seed: 3 }) },
    { do: 'localStateDict' },
    { do: 'articleSave' },
  ]);
  // checkpoint-rank made them.
  const reports = byRank.map((results) => resultOf(results[1]) as DictReport);
  for (const [rank, report] of reports.entries()) {
    assert.deepEqual(report.changed, []);
    assert.equal(report.lone, rank === 0 ? report.names : 0);
    assert.deepEqual(report.states, ['exp_avg', 'exp_avg_sq']);
    assert.equal(report.group.steps, 2);
    assert.equal(report.group.params.length, report.names);
    assert.match(report.swapped, /takes \(model, optimizer, dict\), as torch does since 2\.1/);
    assert.match(
      report.misfit,
      /the state dict has \d+ of the \d+ elements of .* that this rank needs.*use a FULL dict/,
    );
    assert.ok(report.own < report.numParams);
  }
  assert.equal(
    reports.reduce((sum, { own }) => sum + own, 0),
    reports[0]?.numParams,
  );
  assert.match(
    errorOf(byRank[0]?.[2]).error,
    /LOCAL_STATE_DICT .* use SHARDED_STATE_DICT or FULL_STATE_DICT/,
  );
  for (const results of byRank) {
    const { code, error } = errorOf(results[3]);
    assert.equal(code, 'COLLECTIVE_MISMATCH');
    assert.match(error, /rank 0 called allGather .*FSDP\.optimStateDict\(\).*rank 1 called barrier/);
  }
  assert.match(
    errorOf(byRank[0]?.[3]).error,
    /FSDP\.optimStateDict\(\) is a collective: call it on every rank, outside of `if \(rank === 0\)`/,
  );
});
