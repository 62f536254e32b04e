import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { ConfigError, ShardlabError } from '../../src/core/errors';
import type { Trace } from '../../src/figures/grammar/plotly';
import { ownFigure } from '../../src/figures/own-figure';
import { type Plottable, plotNumbers } from '../../src/figures/plot-numbers';

const LOSSES = [5, 4, 3.5, 3.25];

describe('a plot of own numbers', () => {
  it('draws series by name as lines, and its title is computed from the numbers', () => {
    const one = plotNumbers({ loss: LOSSES }, { xTitle: 'step' });
    assert.equal(one.title, 'loss falls from 5 to 3.25');
    assert.deepEqual(one.data[0]?.y, LOSSES);
    const two = plotNumbers({ train: LOSSES, test: Float32Array.of(6, 5) });
    assert.equal(two.title, 'train ends lowest (3.25), test ends highest (5)');
    assert.equal(plotNumbers({ a: [1, 2], b: [3, 2] }).title, 'a and b end at 2');
    assert.equal(two.toCsv().split('\n')[1], 'train,0,5');
    assert.match(two.toSvg(), /train/);
  });

  it('draws single numbers as bars with their values', () => {
    const figure = plotNumbers({ DDP: 18.1, FSDP: 10.6 }, { yTitle: 'MB' });
    assert.equal(figure.title, 'DDP is highest (18.1), FSDP is lowest (10.6)');
    for (const text of ['DDP', '10.6', 'MB']) assert.ok(figure.toSvg().includes(text), text);
  });

  it('takes points, a common x, names as x, and one array alone', () => {
    const points = plotNumbers({ a: { x: [0, 10], y: [1, 2] } }, { kind: 'scatter' });
    assert.deepEqual(points.data[0]?.x, [0, 10]);
    assert.deepEqual(plotNumbers({ a: [1, 2] }, { x: [100, 200] }).data[0]?.x, [100, 200]);
    assert.equal(plotNumbers([3, 3]).title, 'The series begins and ends at the same value: 3');
    const bars = plotNumbers({ DDP: [1, 2], FSDP: [3, 4] }, { kind: 'bar', x: ['memory', 'comm'] });
    assert.ok(bars.toSvg().includes('memory'));
    assert.equal(bars.title, 'The highest value is 4: FSDP, comm');
  });

  it('thins long lines, keeps gaps, and says both', () => {
    const many = Array.from({ length: 10_001 }, (_, i) => (i === 5 ? Number.NaN : i));
    const figure = plotNumbers({ many });
    assert.equal(
      figure.subtitle,
      '3,335 of 10,001 points are drawn. 1 value is not finite and leaves a gap.',
    );
    assert.equal(figure.data[0]?.y.at(-1), 10_000);
    assert.equal(figure.table.rows.length, 10_001);
  });

  it('shows names as text, also names with markup', () => {
    assert.ok(
      plotNumbers({ '<b>&': [1, 2] })
        .toSvg()
        .includes('&lt;b&gt;&amp;'),
    );
  });

  it('refuses values that are not numbers, unequal lengths and unknown options', () => {
    const refused = (data: unknown, options: object, message: RegExp): void =>
      assert.throws(
        () => plotNumbers(data as Plottable, options),
        (error) => {
          assert.ok(error instanceof ConfigError);
          assert.match(error.message, message);
          return true;
        },
      );
    refused({ a: ['x'] }, {}, /"a" is an array; give numbers/);
    refused({}, {}, /nothing to draw/);
    refused('losses', {}, /draws numbers by name/);
    refused({ a: [1, 2] }, { x: [1] }, /"a" has 2 numbers, but x has 1/);
    refused({ a: [1] }, { title2: '' }, /plot has no argument title2; did you mean title\?/);
    refused({ a: [1] }, { kind: 'pie' }, /kind is "pie", but must be 'line' or 'bar' or 'scatter'/);
  });
});

describe("a user's own figure", () => {
  const data: Trace[] = [{ type: 'scatter', mode: 'lines', name: 'a', x: [1, 2], y: [5, 4] }];

  it('needs only a title and traces; its axes show all values', () => {
    const figure = ownFigure({ title: 'Two losses', data });
    assert.deepEqual(figure.layout.xaxis?.range, [0.95, 2.05]);
    assert.equal(figure.toCsv(), 'trace,x,y\na,1,5\na,2,4\n');
    const bars = ownFigure({
      title: 'b',
      data: [{ type: 'bar', marker: { color: '#2362AC' }, x: [0], y: [7] }],
    });
    assert.equal(bars.layout.yaxis?.range?.[0], 0);
  });

  it('refuses traces that a picture cannot show', () => {
    const pie = [{ type: 'pie' }] as unknown as Trace[];
    assert.throws(
      () => ownFigure({ title: 't', data: pie }),
      /data\[0\]\.type is "pie"; choose 'scatter' or 'bar'/,
    );
    const names = [{ ...data[0], x: ['a', 'b'] }] as unknown as Trace[];
    assert.throws(
      () => ownFigure({ title: 't', data: names }),
      /data\[0\]\.x must be an array of numbers; write names as/,
    );
  });
});

describe('a figure', () => {
  it('is saved as its file name says', (t) => {
    const folder = mkdtempSync(join(tmpdir(), 'figure-'));
    t.after(() => rmSync(folder, { recursive: true }));
    const figure = plotNumbers({ loss: LOSSES });
    const saved = (name: string): Buffer => {
      figure.save(join(folder, name));
      return readFileSync(join(folder, name));
    };
    assert.equal(saved('a.png').subarray(1, 4).toString(), 'PNG');
    assert.match(saved('a.svg').toString(), /^<svg /);
    assert.equal(JSON.parse(saved('a.json').toString()).data.length, 1);
    assert.match(saved('a.csv').toString(), /^series,x,y\n/);
    assert.throws(
      () => figure.save('a.gif'),
      /"a\.gif" has no known ending; choose one of \.png, \.svg, \.json, \.csv/,
    );
    assert.throws(
      () => figure.save(join(folder, 'none', 'a.png')),
      (error) =>
        error instanceof ShardlabError && error.code === 'IO' && /could not be saved/.test(error.message),
    );
  });
});
