import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { MimeBundle } from '../../src/cell/mime';
import type { RankEvent, RankOutput } from '../../src/launch/control/messages';
import { createLiveOutput, GroupedOutput, richParts, sectionsBundle } from '../../src/launch/outputs';

function event(rank: number, output: RankOutput): RankEvent {
  return { ...output, rank, cell: 3 };
}

function text(rank: number, line: string): RankEvent {
  return event(rank, { kind: 'stream', name: 'stdout', text: line });
}

function result(rank: number, value: string): RankEvent {
  return event(rank, { kind: 'result', bundle: { 'text/plain': value } });
}

function grouped(events: readonly RankEvent[]): GroupedOutput {
  const output = new GroupedOutput();
  for (const one of events) output.add(one);
  return output;
}

function plain(output: GroupedOutput): unknown {
  return sectionsBundle(output.sections)['text/plain'];
}

test('equal outputs are folded into one with the ranks that agree', () => {
  const output = grouped([0, 1, 2, 3].map((rank) => result(rank, '[ 6, 6, 6, 6 ]')));
  assert.equal(plain(output), 'ranks 0-3 agree\n[ 6, 6, 6, 6 ]');
});

test('differing outputs are shown by rank, in the order of ranks', () => {
  const output = grouped([result(1, '11'), result(0, '10'), result(2, '10')]);
  assert.equal(plain(output), 'ranks 0, 2 agree\n10\nrank 1\n11');
});

test('pieces of a stream are joined, so that equal outputs are folded with any timing', () => {
  const output = grouped([text(0, 'a'), text(1, 'ab\n'), text(0, 'b\n'), result(0, '1'), result(1, '1')]);
  assert.equal(plain(output), 'ranks 0-1 agree\nab\n1');
});

test('a carriage return starts the line again, as in a terminal', () => {
  const output = grouped([text(0, '10%'), text(0, '\r20%'), text(0, '\r30%\n')]);
  assert.equal(plain(output), 'rank 0\n30%');
});

test('an error is shown under its rank with its traceback', () => {
  const error = {
    code: 'RANK_FAILED',
    ename: 'TypeError',
    evalue: 'boo',
    traceback: ['TypeError: boo'],
    line: 2,
  } as const;
  const output = grouped([text(0, 'fine\n'), event(1, { kind: 'error', error })]);
  assert.equal(plain(output), 'rank 0\nfine\nrank 1\nTypeError: boo');
});

test('with SHARDLAB_LANG=zh an error of the library begins in Chinese, and an error of JavaScript does not', (context) => {
  const language = process.env.SHARDLAB_LANG;
  process.env.SHARDLAB_LANG = 'zh';
  context.after(() => {
    process.env.SHARDLAB_LANG = language;
  });
  const evalue = 'there is no parameter wte';
  const own = { code: 'CONFIG', ename: 'ShardlabError[CONFIG]', evalue, traceback: [evalue] } as const;
  const users = { code: 'RANK_FAILED', ename: 'TypeError', evalue, traceback: [evalue] } as const;
  const output = grouped([
    event(0, { kind: 'error', error: own }),
    event(1, { kind: 'error', error: users }),
  ]);
  assert.equal(plain(output), `rank 0\n没有参数 wte\n${evalue}\nrank 1\n${evalue}`);
});

test('an update replaces its display, and clear removes everything', () => {
  const shown = event(0, { kind: 'display', bundle: { 'text/plain': 'one' }, displayId: 'd' });
  const output = grouped([
    shown,
    event(0, { kind: 'update', bundle: { 'text/plain': 'two' }, displayId: 'd' }),
  ]);
  assert.equal(plain(output), 'rank 0\ntwo');
  output.add(event(0, { kind: 'clear', wait: false }));
  assert.equal(output.sections[0]?.shown.length, 0);
});

test('text of ranks is escaped in HTML', () => {
  const html = sectionsBundle(grouped([text(0, '<b>&\n')]).sections)['text/html'];
  assert.match(String(html), /&lt;b&gt;&amp;/);
});

test('pictures and figures are separate from the text', () => {
  const picture = { 'image/png': 'aGk=', 'text/plain': 'a picture' };
  const output = grouped([event(0, { kind: 'result', bundle: picture })]);
  assert.deepEqual(richParts(output.sections), [picture]);
});

test('pictures that differ by rank are tabs in one output, which shows all ranks where no script runs', () => {
  const bundles: MimeBundle[] = [];
  const sink = {
    display: (bundle: MimeBundle) => void bundles.push(bundle),
    update: (_: string, bundle: MimeBundle) => void bundles.push(bundle),
    clear: () => undefined,
  };
  const picture = (rank: number, data: string): RankEvent =>
    event(rank, { kind: 'result', bundle: { 'image/png': data, 'text/plain': `a picture of ${data}` } });
  const live = createLiveOutput(sink);
  for (const rank of [0, 1, 2]) {
    live.add(text(rank, '<b>\n'));
    live.add(picture(rank, rank === 1 ? 'aGo=' : 'aGk='));
  }
  live.finish();
  assert.equal(bundles.length, 1);
  const html = String(bundles[0]?.['text/html']);
  const titles = [...html.matchAll(/class="title"[^>]*>([^<]*)</g)].map(([, title]) => title);
  assert.deepEqual(titles, ['ranks 0, 2 agree', 'rank 1']);
  assert.match(html, /&lt;b&gt;[\s\S]*src="data:image\/png;base64,aGk="[\s\S]*base64,aGo="/);
  assert.equal(
    bundles[0]?.['text/plain'],
    'ranks 0, 2 agree\n<b>\na picture of aGk=\nrank 1\n<b>\na picture of aGo=',
  );
  const equal = createLiveOutput(sink);
  for (const rank of [0, 1]) equal.add(picture(rank, 'aGk='));
  equal.finish();
  assert.deepEqual(bundles.at(-1), { 'image/png': 'aGk=', 'text/plain': 'a picture of aGk=' });
});

test('live output is one display that is updated; without output of ranks there is no display', () => {
  const calls: string[] = [];
  const sink = {
    display: (bundle: MimeBundle) => calls.push(`display ${String(bundle['text/plain'])}`),
    update: (_: string, bundle: MimeBundle) => calls.push(`update ${String(bundle['text/plain'])}`),
    clear: () => calls.push('clear'),
  };
  createLiveOutput(sink).finish();
  assert.deepEqual(calls, []);
  const live = createLiveOutput(sink);
  live.add(result(0, '1'));
  live.finish();
  live.add(result(1, '1'));
  live.finish();
  live.finish();
  assert.deepEqual(calls, ['display rank 0\n1', 'update ranks 0-1 agree\n1']);
});
