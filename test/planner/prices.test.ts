import assert from 'node:assert/strict';
import { test } from 'node:test';
import { costOf, usdPerMillionTokens } from '../../src/planner/cost-of';
import { GPUS, hardwareOf } from '../../src/planner/hardware';
import { PRICES, priceOf, priceTable } from '../../src/planner/prices';
import { layoutOfLine } from '../support/batch-lines';
import { toyPredict } from './toy-predict';

const layout = layoutOfLine({ model: 'gpt2', gpus: 8, batch: { global: 64, micro: 8 } });
const planned = { layout, prediction: toyPredict(layout) };

test('a run costs GPUs x hours x price, for a length in steps, samples or tokens', () => {
  const seconds = planned.prediction.seconds.value;
  const usd = (1000 * seconds * 8 * PRICES['A100-80G'].usdPerHour) / 3600;
  for (const length of [{ steps: 1000 }, { samples: 64_000 }, { tokens: 64_000 * 1024 }]) {
    const cost = costOf(planned, length);
    assert.equal(cost.steps, 1000);
    assert.ok(Math.abs(cost.usd.value - usd) < 1e-9);
    assert.ok(cost.usd.low < cost.usd.value && cost.usd.value < cost.usd.high);
    assert.ok(Math.abs(cost.usdPerMillionTokens.value - usd / 65.536) < 1e-9);
  }
  assert.equal(
    usdPerMillionTokens(planned, PRICES)?.value.toPrecision(9),
    costOf(planned, { steps: 5 }).usdPerMillionTokens.value.toPrecision(9),
  );
});

test('the last step counts as a whole', () => {
  assert.equal(costOf(planned, { samples: 65 }).steps, 2);
});

test('a length of 0 is refused', () => {
  assert.throws(() => costOf(planned, { steps: 0 }), /\{ steps: 0 \}|"steps":0/);
});

test('every list price has a source and a date, and belongs to a known GPU', () => {
  for (const [name, { usdPerHour, source, date }] of Object.entries(PRICES)) {
    assert.ok(name in GPUS, name);
    assert.ok(usdPerHour > 0 && source.length > 10, name);
    assert.match(date, /^\d{4}-\d{2}$/);
  }
});

test("a user's table replaces single prices; the hardware's own price replaces all of them", () => {
  const own = priceTable({ 'A100-80G': 1.79, rented: { usdPerHour: 2, source: 'contract' } }, 'prices.json');
  assert.deepEqual(priceOf(hardwareOf('A100-80G'), own), {
    usdPerHour: 1.79,
    source: 'prices.json',
    date: 'as given',
  });
  assert.equal(priceOf(hardwareOf('H100-80G'), own)?.usdPerHour, PRICES['H100-80G'].usdPerHour);
  assert.equal(priceOf(hardwareOf('A100-80G', { usdPerHour: 3 }), own)?.usdPerHour, 3);
  assert.equal(priceOf(hardwareOf('H20'), priceTable({ h20: 1.3 }))?.usdPerHour, 1.3);
  assert.throws(
    () => priceTable({ 'A100-80G': '1.79' }, 'prices.json'),
    /prices\.json: A100-80G is not a price/,
  );
});

test('prices in CNY are converted at the rate of the table, and costs are in both currencies', () => {
  const own = priceTable(
    { cnyPerUsd: 7.1, 'A100-80G': { cnyPerHour: 14.2, source: 'contract' } },
    'cny.json',
  );
  const { usd, cny, price } = costOf(planned, { steps: 1000 }, own);
  assert.equal(price.usdPerHour, 2);
  assert.equal(price.source, 'contract');
  assert.ok(Math.abs((cny?.value ?? 0) - 7.1 * usd.value) < 1e-9);
  assert.equal(priceOf(hardwareOf('H100-80G'), own)?.usdPerHour, PRICES['H100-80G'].usdPerHour);
  assert.equal(costOf(planned, { steps: 1000 }).cny, null);
  assert.throws(
    () => priceTable({ 'H20-96G': { cnyPerHour: 9 } }, 'cny.json'),
    /cny\.json: H20-96G has a price in CNY; add the exchange rate/,
  );
  assert.throws(() => priceTable({ cnyPerUsd: 0 }, 'cny.json'), /cny\.json: cnyPerUsd is not a price/);
});

test('the error of a GPU without a price names it', () => {
  const unlisted = layoutOfLine({ model: 'gpt2', hardware: 'H100-96G-grand-teton', gpus: 8 });
  assert.throws(
    () => costOf({ layout: unlisted, prediction: toyPredict(unlisted) }, { steps: 1 }),
    /no price is known for H100-96G-grand-teton/,
  );
});

test('a run without a length or with an unknown one is refused', () => {
  for (const length of [undefined, {}, { token: 1e9 }, { steps: 0 }]) {
    assert.throws(() => costOf(planned, length as { steps: number }), /a run's length is \{ tokens \}/);
  }
});
