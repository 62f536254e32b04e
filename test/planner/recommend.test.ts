import assert from 'node:assert/strict';
import { test } from 'node:test';
import { familyOf } from '../../src/planner/families';
import { type Recommendation, type RecommendOptions, recommend as search } from '../../src/planner/recommend';
import { type RecommendInput, recommendRequest, searchBases } from '../../src/planner/recommend-request';
import { toyPredict } from './toy-predict';

const options = { predict: toyPredict };

function recommend(input: RecommendInput, given: RecommendOptions): Recommendation {
  return search(recommendRequest(input), given);
}

test('the winner is the fastest layout that fits, and the ranked layouts follow in order', () => {
  const found = recommend({ model: 'llama3-70b', hardware: 'H100-80G', gpus: 64 }, options);
  const seconds = found.ranked.map(({ prediction }) => prediction.seconds.value);
  assert.equal(seconds.length, 10);
  assert.deepEqual(
    seconds,
    [...seconds].sort((a, b) => a - b),
  );
  assert.ok(found.ranked.every(({ prediction }) => prediction.fits));
  assert.ok(found.numFitting < found.numCandidates);
});

test('every other family says why its best member lost', () => {
  const found = recommend({ model: 'llama3-70b', hardware: 'H100-80G', gpus: 64 }, options);
  const winning = familyOf(found.ranked[0]?.layout ?? assert.fail());
  assert.ok(!found.losses.some(({ family }) => family === winning));
  assert.ok(found.losses.every(({ tried, fitting }) => tried >= fitting && tried > 0));
  const ddp = found.losses.find(({ family }) => family === 'DDP') ?? assert.fail();
  assert.match(ddp.why, /^does not fit: needs \d+(\.\d+)?x the memory, \d+% of it for optimizer states$/);
  const pipelined =
    found.losses.find(({ family, fitting }) => family.endsWith('PP') && fitting > 0) ?? assert.fail();
  assert.match(pipelined.why, /^1\.\d+x slower: more (bubble|exposed communication|compute)/);
});

test('if a layout is in the interval of the winner, the deciding assumption is named, otherwise none', () => {
  const { losses, ranked } = recommend({ model: 'llama3-8b', hardware: 'H100-80G', gpus: 64 }, options);
  const { value = 0, high = 0 } = ranked[0]?.prediction.seconds ?? {};
  const fitting = losses.filter(({ best }) => best.prediction.fits);
  for (const { best, undecided } of fitting) {
    const { seconds } = best.prediction;
    assert.equal(undecided, seconds.low < value && seconds.value < high ? 'toy time' : undefined);
  }
  assert.ok(fitting.some(({ undecided }) => undecided !== undefined));
});

test('by memory the smallest peak wins, by cost the cheapest tokens, and the user may replace prices', () => {
  const by = (
    measure: 'time' | 'memory' | 'cost',
    prices?: Record<string, { usdPerHour: number; source: string; date: string }>,
  ) => {
    const hardware = measure === 'cost' ? ['A100-80G', 'H100-80G'] : 'H100-80G';
    const found = recommend(
      { model: 'llama3-8b', hardware, gpus: 64, by: measure, globalBatch: 512 },
      prices === undefined ? options : { ...options, prices },
    );
    return found.ranked[0] ?? assert.fail();
  };
  assert.ok(by('memory').prediction.memory.peakBytes < by('time').prediction.memory.peakBytes);
  assert.equal(by('cost').layout.hardware.name, 'H100-80G');
  const listed = { source: 'test', date: '2025-01' };
  const dear = { 'A100-80G': { usdPerHour: 1, ...listed }, 'H100-80G': { usdPerHour: 9, ...listed } };
  assert.equal(by('cost', dear).layout.hardware.name, 'A100-80G');
});

test('a time limit excludes slower layouts', () => {
  const input = { model: 'llama3-8b', hardware: 'A100-80G', gpus: 64, by: 'cost' } as const;
  const free = recommend(input, options).ranked[0] ?? assert.fail();
  const tokens = 1e9;
  const perGpu = free.prediction.tokensPerSecondPerGpu;
  const hours = tokens / (perGpu * 40) / 3600;
  const found = recommend({ ...input, within: { tokens, hours } }, options);
  assert.ok(found.ranked.every(({ layout }) => layout.gpus === 64));
  assert.throws(
    () => recommend({ ...input, within: { tokens } as never }, options),
    /within\.hours: is missing/,
  );
});

test('if nothing fits, families are ordered by the memory that they lack', () => {
  const found = recommend({ model: 'llama3-405b', hardware: 'V100-32G', gpus: 8, globalBatch: 8 }, options);
  assert.equal(found.ranked.length, 0);
  const peaks = found.losses.map(({ best }) => best.prediction.memory.peakBytes);
  assert.deepEqual(
    peaks,
    [...peaks].sort((a, b) => a - b),
  );
  assert.ok(found.losses.every(({ why }) => why.startsWith('does not fit')));
});

test('degrees that do not divide the heads are named, and a batch without a layout is refused with a suggestion', () => {
  const { notTried } = recommend({ model: 'gpt2-xl', gpus: 8 }, options);
  assert.deepEqual(notTried, ['tp 2, 4, 8: does not divide 25 heads (25 of keys and values)']);
  assert.throws(
    () => recommend({ model: 'gpt2-xl', gpus: 8, globalBatch: 7 }, options),
    /no layout of gpt2-xl .* global batch of 7[\s\S]*globalBatch: 8/,
  );
});

test('the error of a wrong key names the nearest key', () => {
  assert.throws(() => recommend({ model: 'llama3-8', gpus: 8 }, options), /did you mean 'llama3-8b'/);
  assert.throws(
    () => recommend({ model: 'gpt2', gpu: 8 } as RecommendInput, options),
    /gpu: unknown key; did you mean "gpus"/,
  );
  assert.throws(
    () => recommend({ model: 'gpt2', search: { micr: [1] } as object }, options),
    /search\.micr: .*"micro"/,
  );
});

test('a config, a name and one object with both give the same question', () => {
  const place = { on: 'H100-80G', gpus: 16 };
  const both = recommendRequest({ model: 'gpt2', hardware: 'H100-80G', gpus: 16 });
  assert.deepEqual(recommendRequest('gpt2', place), both);
  const ofConfig = recommendRequest(
    { model: 'gpt2', mixedPrecision: 'fp16', optimizer: { kind: 'sgd' } },
    place,
  );
  const [base] = searchBases(ofConfig);
  assert.deepEqual(
    [base?.optimizer.kind, ofConfig.globalBatch, base?.precision, ofConfig.gpus],
    ['sgd', undefined, 'fp16', 16],
  );
  const written = { model: 'gpt2', batch: 2, accumulation: 3 } as const;
  assert.equal(recommendRequest(written, place).globalBatch, 2 * 3 * 16);
});

test('a key without a value leaves the request unchanged', () => {
  const request = { model: 'gpt2', gpus: 16, globalBatch: 64 };
  const place = { on: undefined, gpus: undefined, globalBatch: undefined };
  assert.deepEqual(recommendRequest(request, place), recommendRequest(request));
});

test('a search replaces the strategy, the degrees and the recompute of a config, and keeps its types', () => {
  const config = {
    model: 'llama3-8b',
    mixedPrecision: 'fp16',
    activationCheckpointing: 'full',
    parallel: { strategy: 'ZERO_2', tp: 2 },
  } as const;
  const [base] = searchBases(recommendRequest(config, { gpus: 8 }));
  assert.deepEqual(
    [base?.precision, base?.reduceDtype, base?.strategy, base?.tp, base?.recompute],
    ['fp16', 'fp16', 'NO_SHARD', 1, 'none'],
  );
});

test('an input that is no request, and a number of layouts below 1, are refused', () => {
  assert.throws(() => recommendRequest(undefined as never), /a plan needs a TrainConfig/);
  for (const top of [0, 2.5, 'x' as never])
    assert.throws(
      () => recommend({ model: 'gpt2' }, { ...options, top }),
      /top is .*; give an integer of at least 1/,
    );
});
