import assert from 'node:assert/strict';
import { test } from 'node:test';
import { DISPLAY } from '../../src/core/display';
import { commCauses } from '../../src/figures/comm-causes';
import { commTimeline, compareTimeline } from '../../src/figures/comm-timeline';
import { percent } from '../../src/figures/format';
import { plain, safe } from '../../src/figures/grammar/ink';
import { lossCurve } from '../../src/figures/loss-curve';
import { hatchText } from '../../src/figures/memory-areas';
import { compareMemoryTimeline } from '../../src/figures/memory-timeline';
import { comparePlans } from '../../src/figures/plans/compare-plans';
import { fitText } from '../../src/figures/plans/plan-texts';
import { scalingCurve } from '../../src/figures/plans/scaling-curve';
import type { RunView } from '../../src/figures/run-view';
import { createTable } from '../../src/figures/table';
import { waitsText } from '../../src/figures/wait-words';
import type { StepRecord } from '../../src/ledger/record';
import { quietPlan as plan, whatIf } from '../../src/session/plans/plan';
import { simulateRanks } from '../ledger/simulated-step';

/** A record with all times multiplied by `factor`. */
function stretched(record: StepRecord, factor: number): StepRecord {
  const at = (time: number): number => record.start + (time - record.start) * factor;
  return {
    ...record,
    end: at(record.end),
    spans: record.spans.map((span) => ({ ...span, start: at(span.start), end: at(span.end) })),
    collectives: record.collectives.map(({ progress, ...event }) => ({
      ...event,
      posted: at(event.posted),
      started: at(event.started),
      ended: at(event.ended),
      exposed: event.exposed * factor,
      progress: progress && {
        ...progress,
        free: at(progress.free),
        arrived: at(progress.arrived),
        resumed: at(progress.resumed),
        lacked: progress.lacked * factor,
        carried: progress.carried * factor,
      },
    })),
  };
}

/** A run whose step times are these multiples of the simulated step's; `tokens` are per rank. */
function runOf(factors: readonly number[], tokens = 256, wireMs = 1.2): RunView {
  const records = factors.flatMap((factor, i) =>
    simulateRanks({ world: 2, strategy: 'FULL_SHARD', step: i + 1, wireMs }).map((record) => ({
      ...stretched(record, factor),
      tokens,
    })),
  );
  return { strategy: 'FULL_SHARD', world: 2, records };
}

const STEADY = [9, 1, 1.01, 0.99, 1, 1.02, 1.005];

test('only bytes that are freed within the step are said to be so', () => {
  const texts = (['FULL_SHARD', 'NO_SHARD'] as const).map((strategy) =>
    hatchText(simulateRanks({ world: 2, strategy })),
  );
  // The simulated batch is the same in each step.
  assert.deepEqual(texts, [
    ' Hatched: freed within the step; batch also holds bytes after it.',
    ' Hatched: freed within the step; batch and param.full also hold bytes after it.',
  ]);
});

test('shares near 100% have one decimal, and only the whole is 100%', () => {
  const shares = [0, 0.001, 0.99, 0.994, 0.996, 0.99999, 1];
  assert.deepEqual(shares.map(percent), ['0%', '&lt;1%', '99%', '99.4%', '99.6%', '99.9%', '100%']);
});

test('the drawn step is the step nearest the median, without the cold first step and late steps', () => {
  const run = runOf([9, 1, 1.2, 1.1, 0.9, 1.3, 4, 1.25]);
  // Of steps 2 to 8 the median is 1.2: step 3.
  assert.match(commTimeline(run).subtitle, /Step 3: its times are nearest to the medians of 7 steps\./);
  const [row] = compareTimeline({ run }).table.rows;
  assert.equal(row?.shownStep, 3);
  assert.equal(row?.numSteps, 7);
  const [memory] = compareMemoryTimeline({ run }).table.rows;
  assert.equal(memory?.step, 3);
});

test('the drawn wait differs from the wait in the label by less than 10%', () => {
  const [row] = compareTimeline({ run: runOf([9, 1, 1.2, 1.1, 0.9, 1.3, 4]) }).table.rows;
  const [shown, said] = [Number(row?.shownWaitSeconds), Number(row?.waitSeconds)];
  assert.ok(Math.abs(shown / said - 1) < 0.1, `${shown} drawn, ${said} said`);
  const parts = [row?.wireWaitSeconds, row?.peerWaitSeconds, row?.coreWaitSeconds].map(Number);
  assert.ok(Math.abs(parts.reduce((a, b) => a + b, 0) / said - 1) < 0.1);
});

test('the first step after a checkpoint or resharding is also cold', () => {
  const run = runOf(STEADY);
  const later = run.records.map((record) => ({ ...record, step: record.step + 30 }));
  assert.equal(compareTimeline({ run: { ...run, records: later } }).table.rows[0]?.numSteps, 6);
});

test('a figure compares no times after few steps or if the spreads overlap', () => {
  const few = compareTimeline({ a: runOf([9, 1, 1]), b: runOf([9, 2, 2]) });
  assert.equal(few.title, 'Too few steps to compare times: 2 measured steps, 4 are needed');
  const noisy = { a: runOf([9, 1, 2, 3, 1, 2, 3]), b: runOf([9, 1.1, 2.1, 2.9, 1.1, 2.1, 3.1]) };
  assert.match(compareTimeline(noisy).title, /^No clear difference in waiting/);
  assert.match(
    compareTimeline(noisy).quantities.hiddenShare?.says('5%') ?? '',
    /^no clear difference in waiting for the wire: /,
  );
  const notes = JSON.stringify(compareTimeline(noisy).layout.annotations);
  assert.match(notes, /step: no clear difference/);
  assert.doesNotMatch(notes, /step \d/);
  assert.match(
    JSON.stringify(compareMemoryTimeline(noisy).layout.annotations),
    /no clear difference|time unclear/,
  );
});

test("if runs differ clearly, the title names each run's wait for the wire", () => {
  const runs = { fast: runOf(STEADY, 256, 0.6), slow: runOf(STEADY, 256, 2.4) };
  const figure = compareTimeline(runs);
  assert.match(figure.title, /^"fast" waits [\d.]+ ms for the wire, and "slow" waits [\d.]+ ms$/);
  const [fast, slow] = figure.table.rows.map(({ wireWaitSeconds }) => Number(wireWaitSeconds));
  assert.ok((fast ?? 0) < (slow ?? 0));
});

test('steps with different numbers of tokens are compared per token', () => {
  // Four times the tokens in twice the time: half the time per token.
  const runs = {
    one: runOf(STEADY, 256),
    four: runOf(
      STEADY.map((factor) => factor * 2),
      1024,
    ),
  };
  const figure = compareTimeline(runs);
  assert.match(figure.subtitle, /per 1,000 tokens/);
  assert.match(figure.title, / ms per 1,000 tokens$/);
  assert.match(JSON.stringify(figure.layout.xaxis), /ms per 1,000 tokens/);
  // The axis ends where the slower run's lanes end: a step of 256 tokens per rank is 1 / 0.512 times 1,000 tokens of both ranks.
  const end = (of: readonly RunView[]) =>
    compareTimeline(Object.fromEntries(of.entries())).layout.xaxis?.range?.[1] ?? 0;
  assert.ok(Math.abs(end([runs.one, runs.four]) * 0.512 - end([runs.one])) < 1e-6);
  assert.match(JSON.stringify(figure.layout.annotations), /step 0\.50×/);
  assert.match(JSON.stringify(compareMemoryTimeline(runs).layout.annotations), /token 0\.50×/);
});

test('tokens per step are a median, as the times beside them are', () => {
  const run = runOf(STEADY);
  const uneven = run.records.map((record) => ({ ...record, tokens: record.step === 3 ? 2560 : 256 }));
  assert.equal(compareTimeline({ run: { ...run, records: uneven } }).table.rows[0]?.tokens, 512);
});

test('bytes that differ between ranks are a mean, and are not said of each rank', () => {
  const run = runOf([1]);
  const even = commCauses(run);
  assert.match(even.title, / · Each rank receives /);
  assert.match(even.quantities.wireMB?.says('1 MB') ?? '', /^each rank receives 1 MB per step$/);
  const pipeline = run.records.map((record) => ({
    ...record,
    collectives: record.collectives.map((event) => ({
      ...event,
      wireBytes: record.rank === 0 ? 0 : event.wireBytes,
    })),
  }));
  const uneven = commCauses({ ...run, records: pipeline });
  assert.match(uneven.title, / · On average a rank receives .* per step, /);
  assert.match(uneven.quantities.wireMB?.says('1 MB') ?? '', /^a rank receives 1 MB per step on average$/);
});

test('the title of an efficiency that rounds to 100% says by how much it is less, or that it stays', () => {
  const titleOf = (...values: readonly number[]): string =>
    scalingCurve({
      series: [
        {
          name: 'DDP',
          points: values.map((value, i) => ({
            count: 8 * 2 ** i,
            value: { value, low: value, high: value },
          })),
        },
      ],
      quantity: 'efficiency',
      countedIn: 'GPUs',
      subtitle: '',
    }).title;
  assert.equal(titleOf(100, 99.6), 'From 8 to 16 GPUs, efficiency changes from 100% to 99.6%');
  assert.equal(titleOf(100, 100), 'From 8 to 16 GPUs, efficiency stays at 100%');
});

const A100 = {
  model: 'llama3-8b',
  hardware: 'A100-80G',
  gpus: 8,
  activationCheckpointing: 'full',
} as const;

test('plans of unequal work are compared per sequence, so that less work does not count as faster', () => {
  const plans = { whole: plan(A100), cp: plan(A100, { parallel: { cp: 8 } }) };
  const figure = comparePlans(plans, 'time');
  const per = (one: (typeof plans)['cp']): number => one.seconds.value / one.layout.globalBatch;
  assert.equal(plans.whole.layout.globalBatch, 8 * plans.cp.layout.globalBatch);
  assert.deepEqual(
    figure.table.rows.map(({ seconds }) => Number(seconds).toPrecision(4)),
    [per(plans.whole), per(plans.cp)].map((seconds) => seconds.toPrecision(4)),
  );
  assert.match(JSON.stringify(figure.layout.annotations), /One sequence of 8,192 tokens/);
  const slower = per(plans.whole) > per(plans.cp) ? 'whole' : 'cp';
  assert.match(figure.title, new RegExp(`^"${slower}" takes .* per sequence`));
});

test('a what-if that changes the tokens of an iteration shows the time of equally many tokens', () => {
  const base = { ...A100, model: { like: 'llama3-8b', seq: 4096 } };
  const figure = whatIf(base, { seq: [4096, 8192] });
  const [same, longer] = figure.table.rows;
  assert.equal(same?.isScaled, false);
  assert.equal(longer?.isScaled, true);
  assert.equal(Number(longer?.seconds).toPrecision(6), (plan(A100).seconds.value / 2).toPrecision(6));
  assert.match(figure.subtitle.replaceAll('<br>', ' '), /Times are for 32,768 tokens\./);
});

test('the title of a what-if rounds numbers as its bars do', () => {
  const figure = whatIf(A100, { recompute: ['none', 'full'], attention: ['flash', 'unfused'] });
  const [, low, high] = /\(([\d.]+)–([\d.]+) GB\)/.exec(figure.title) ?? assert.fail(figure.title);
  const labels = JSON.stringify(figure.layout.annotations);
  for (const number of [low, high]) assert.ok(labels.includes(`>${number}<`), `${number} in ${labels}`);
});

test('a plan shows its peak in one unit, and says whether the interval crosses the capacity', () => {
  assert.doesNotMatch(plan(A100).toText(), /GiB/);
  const of = (low: number, high: number) => ({ value: (low + high) / 2, low, high });
  assert.equal(fitText(true, of(1, 2), 3), 'fits');
  assert.equal(fitText(true, of(1, 4), 3), 'probably fits, but may need more memory');
  assert.equal(fitText(false, of(2, 6), 3), 'probably does not fit, but may need less memory');
  assert.equal(fitText(false, of(4, 6), 3), 'does not fit');
});

test('either all numbers of a column have thousands separators, or none of them', () => {
  const text = createTable([
    { tokens: 16000 },
    { tokens: 16000.4 },
    { tokens: 2053.7 },
    { tokens: 0.5 },
  ]).toText();
  assert.deepEqual(
    text.split('\n').map((line) => line.trim()),
    ['tokens', '16,000', '16,000', '2,054', '0.5'],
  );
});

test('the loss curve of a run from a checkpoint fills the width from its first step', () => {
  const figure = lossCurve([{ name: '', losses: [3, 2, 1], firstStep: 31 }], { steps: 35 });
  const [from = 0, to = 0] = figure.layout.xaxis?.range ?? [];
  assert.ok(Number(from) > 30 && Number(from) <= 31, String(from));
  assert.ok(Number(to) >= 35 && Number(to) < 36, String(to));
});

test('if all runs except one have nearly equal losses, the title names that one', () => {
  const series = { a: [3, 2, 1], b: [3, 2.2, 1.5], c: [3, 2.0000002, 1] };
  const curve = (names: readonly (keyof typeof series)[]) =>
    lossCurve(names.map((name) => ({ name, losses: series[name] }))).title;
  assert.equal(curve(['a', 'b', 'c']), '"b" differs by up to 0.5; the other 2 runs differ by at most 2e-7');
  assert.equal(curve(['a', 'b']), 'The losses of 2 runs differ by at most 0.5 over 3 common steps');
});

test('the text of a figure has no escapes of its markup', () => {
  const figure = lossCurve([{ name: 'a < b', losses: [3, 2] }]);
  assert.match(String(figure[DISPLAY]()['text/plain']), /mean over all ranks, a < b\./);
  assert.equal(plain(safe('a & <b>')), 'a & <b>');
});

test('a short name at the end of a loss curve is on one line', () => {
  const series = ['here', 'torch', 'm'].map((name) => ({ name, losses: [3, 2.5, 2] }));
  const labels = (lossCurve(series).layout.annotations ?? []).map(({ text }) => String(text));
  for (const name of ['here', 'torch'])
    assert.ok(
      labels.some((text) => text.includes(name)),
      `${labels}`,
    );
  assert.ok(
    labels.every((text) => !text.includes('<br>')),
    `${labels}`,
  );
});

test('waits whose kind no record says are not divided into kinds', () => {
  const none = { wire: 0, peer: 0, core: 0, unknown: 0 };
  assert.equal(waitsText({ ...none, unknown: 12 }, 1), '12.0 for wire, peer or core');
  assert.equal(waitsText({ ...none, wire: 3 }, 1), '3.0 for the wire, 0 for a peer and 0 for a core');
});
