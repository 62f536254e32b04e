import assert from 'node:assert/strict';
import { test } from 'node:test';
import { pageScript, playerBundle, playerHtml, roundTable } from '../../../src/figures/player/player';
import { playerSvg } from '../../../src/figures/player/player-still';
import { moduleRows, type PlayerView, packedView, playerView } from '../../../src/figures/player/player-view';
import type { WalkRecord } from '../../../src/figures/player/walk-record';
import { assertGolden } from '../golden';
import { fsdpRecord, pipelineRecord } from './records';

const RECORDS: Readonly<Record<string, WalkRecord>> = { fsdp: fsdpRecord(), pipeline: pipelineRecord() };

for (const [name, record] of Object.entries(RECORDS)) {
  test(`every round of the walk ${name} has its table of ranks, and its still is a picture of the last round`, () => {
    const tables = record.rounds.map((_, round) => roundTable(record, { round }).toText());
    assertGolden(`player-${name}`, `${tables.join('\n\n')}\n`);
    assertGolden(`player-${name}-still`, playerSvg(record));
  });
}

/** The names of the modules whose parameters a rank has whole in a round. */
function wholeIn(view: PlayerView, rank: number, round: number): readonly string[] {
  const { numReached, state } = view.rounds[round]?.[rank] ?? assert.fail('no such round');
  const passed = state === 'ended' ? numReached : numReached - 1;
  const ranges = view.whole?.[rank] ?? [];
  return ranges
    .filter(({ from, to }) => from <= passed && passed < to)
    .map(({ row }) => view.modules[row]?.name ?? '');
}

test('a packed view has each point once, so more ranks that do the same need hardly more room', () => {
  const record = fsdpRecord();
  const ranks = (count: number): WalkRecord => ({
    ...record,
    points: Array.from({ length: count }, () => record.points[0] ?? []),
    rounds: record.rounds.map(([first]) =>
      Array.from({ length: count }, () => first ?? assert.fail('no rank')),
    ),
  });
  const bytes = (count: number): number => JSON.stringify(packedView(playerView(ranks(count)))).length;
  assert.ok(bytes(8) < bytes(1) * 1.5, `${bytes(8)} and ${bytes(1)} bytes`);
  const { steps, points } = packedView(playerView(record));
  assert.deepEqual(
    points.map((row) => row.map((index) => steps[index])),
    playerView(record).points,
  );
});

test('a module is whole from the point after its all-gather to the point after its reshard', () => {
  const view = playerView(fsdpRecord());
  const layer = [[], [], ['layers.0'], ['layers.0'], []];
  for (const [round, whole] of layer.entries()) assert.deepEqual(wholeIn(view, 0, round), whole, `${round}`);
  assert.deepEqual(wholeIn(view, 0, view.rounds.length - 1), []);
});

test('a unit whose first point is a reshard was whole before, and a walk without units says nothing of it', () => {
  const record = fsdpRecord();
  const points = record.points.map((each) => each.slice(3));
  const view = playerView({ ...record, points, rounds: points[0]?.map(() => []) ?? [] });
  assert.deepEqual(view.whole?.[0]?.[0], { row: 2, from: 0, to: 1 });
  assert.equal(playerView(pipelineRecord()).whole, null);
});

test('a rank that waits within a collective has not passed it', () => {
  const record = fsdpRecord();
  const round = record.rounds.findIndex(([first]) => first?.state === 'waiting');
  assert.match(roundTable(record, { round }).toText(), /0 {2}waiting {2}reduceScatter layers\.2/);
  const { texts, rounds } = playerView(record);
  assert.equal(
    texts[rounds[round]?.[0]?.sentence ?? -1],
    'waits in reduceScatter layers.2 (#5 in world) for rank 1',
  );
});

test('bars have the causes of the record in the order of the figures, and the most of the walk', () => {
  const view = playerView(fsdpRecord());
  assert.deepEqual(
    view.causes.map(({ name }) => name),
    ['param.shard', 'optimizer', 'grad.shard', 'activation', 'grad.full', 'param.full', 'temp'],
  );
  assert.deepEqual(view.points[0]?.[2]?.bytes, [384_000, 768_000, 0, 0, 0, 256_000, 0]);
  const totals = fsdpRecord()
    .points.flat()
    .map(({ bytes }) => bytes.reduce((a, b) => a + b));
  assert.deepEqual(view.most, { bytes: Math.max(...totals), rank: 0 });
});

test('the tree has parents that no point names, and a unit of several modules has a row for each', () => {
  assert.deepEqual(
    moduleRows(['', 'blocks.0', 'norm, head', 'blocks.1.attn']).map(({ name, depth }) => `${depth} ${name}`),
    ['0 ', '1 blocks', '2 blocks.0', '2 blocks.1', '3 blocks.1.attn', '1 norm', '1 head'],
  );
});

test('names in a record are never markup of the page', () => {
  const hostile = '</script><img src=x onerror=alert(1)>"&';
  const record = fsdpRecord();
  const html = playerHtml({
    ...record,
    title: hostile,
    modules: [hostile],
    places: record.places.map((place) => ({ ...place, title: hostile, lines: [hostile] })),
  });
  assert.ok(!html.includes('<img src=x'));
  assert.equal(html.split('</script>').length, 3);
  assert.equal(html.split('</div>').length, 2);
});

test('a player needs no network, and equal records have equal outputs', () => {
  const outside = pageScript().match(/\bimport\b|https?:[^']*|\bfetch\(|url\(/g) ?? [];
  assert.deepEqual(
    [...outside],
    ['http://www.w3.org/2000/svg', 'http://www.w3.org/2000/svg'],
    'only the name of SVG',
  );
  assert.deepEqual(playerBundle(fsdpRecord()), playerBundle(fsdpRecord()));
  assert.deepEqual(Object.keys(playerBundle(fsdpRecord())), ['text/html', 'text/plain']);
});

test('a walk without rounds has a player, a still and a table', () => {
  const record: WalkRecord = { ...fsdpRecord(), points: [[], []], rounds: [], places: [] };
  assert.match(playerHtml(record), /no round yet/);
  assert.match(playerSvg(record), /rank 1/);
  assert.match(roundTable(record).toText(), /no round yet/);
});
