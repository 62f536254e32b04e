import assert from 'node:assert/strict';
import { test } from 'node:test';
import { locatedText } from '../../src/config/located-text';
import { checkLocated, configNamed, PRESETS } from '../../src/config/named-config';
import { modelShape } from '../../src/config/settings/model';
import { parseTrainConfig, type TrainConfig, type TrainConfigInput } from '../../src/config/train-config';
import { ConfigError } from '../../src/core/errors';

const parsed = (text: string, file: string): TrainConfig => {
  const located = locatedText(text, file);
  checkLocated(located);
  return parseTrainConfig(located.input);
};

const thrown = (work: () => unknown): ConfigError => {
  try {
    work();
  } catch (error) {
    assert.ok(error instanceof ConfigError);
    return error;
  }
  return assert.fail('expected an error');
};

test('an empty config is the tiny model under FULL_SHARD', () => {
  const config = parseTrainConfig({});
  assert.equal(config.model, 'tiny');
  assert.equal(config.parallel.strategy, 'FULL_SHARD');
  assert.equal(config.parallel.backwardPrefetch, 'BACKWARD_PRE');
  assert.equal(config.batch, 4);
});

test("an optimizer has torch's defaults", () => {
  const { optimizer } = parseTrainConfig({});
  const { lr, betas, eps, weightDecay } = optimizer;
  assert.deepEqual(
    { lr, betas, eps, weightDecay },
    { lr: 1e-3, betas: [0.9, 0.999], eps: 1e-8, weightDecay: 0.01 },
  ); // torch.optim.AdamW of 2.13
  assert.equal(parseTrainConfig({ optimizer: { kind: 'sgd' } }).optimizer.weightDecay, 0); // torch.optim.SGD
});

test('parsing a parsed config does not change it', () => {
  const config = parseTrainConfig(PRESETS.bench);
  assert.deepEqual(parseTrainConfig(config), config);
  assert.deepEqual(modelShape(config), {
    kind: 'gpt',
    layers: 4,
    dim: 256,
    heads: 8,
    vocab: 8192,
    seq: 128,
    tied: true,
  });
});

test('the error of an unknown key names the nearest known key', () => {
  assert.match(
    thrown(() => parseTrainConfig({ bach: 3 })).message,
    /^bach: unknown key; did you mean "batch"\?/,
  );
  assert.match(
    thrown(() => parseTrainConfig({ optimizer: { weight_decay: 0 } })).message,
    /^optimizer\.weight_decay: unknown key; did you mean "weightDecay"\?/,
  );
  assert.match(
    thrown(() => parseTrainConfig({ model: { kind: 'gpt', layer: 1, dim: 8, heads: 1, vocab: 300, seq: 8 } }))
      .message,
    /model\.layer: unknown key; did you mean "layers"\?/,
  );
  // A short name with one other letter is another name.
  const { message } = thrown(() => parseTrainConfig({ parallel: { xp: 2 } }));
  assert.match(message, /^parallel\.xp: unknown key; choose one of strategy/);
});

test('a sequence that its ranks do not divide is refused', () => {
  const said = (parallel: TrainConfigInput['parallel']): string =>
    thrown(() =>
      parseTrainConfig({ model: { kind: 'gpt', layers: 1, dim: 8, heads: 4, vocab: 300, seq: 6 }, parallel }),
    ).message;
  assert.match(
    said({ cp: 4 }),
    /^parallel\.cp: 4 ranks do not divide the model's seq 6; give a multiple of 4/,
  );
  assert.match(
    said({ cp: 2, cpKind: 'ring' }),
    /^parallel\.cp: the 4 chunks of a ring of 2 ranks do not divide/,
  );
  assert.match(
    said({ cp: 3 }),
    /^parallel\.cp: 3 ranks do not divide the 4 heads that Ulysses exchanges; .*'ring'/,
  );
  assert.match(said({ tp: 4, sequenceParallel: true }), /^parallel\.sequenceParallel: 4 ranks do not divide/);
  assert.match(said({ tp: 2, cp: 2, sequenceParallel: true }), /^parallel\.sequenceParallel: 4 ranks/);
  for (const parallel of [
    { cp: 2 },
    { cp: 3, cpKind: 'ring' },
    { tp: 3, sequenceParallel: true },
    { tp: 4 },
  ] as const)
    parseTrainConfig({ model: { kind: 'gpt', layers: 1, dim: 8, heads: 4, vocab: 300, seq: 6 }, parallel });
});

test('the error of a wrong value shows the given value', () => {
  const { message } = thrown(() => parseTrainConfig({ parallel: { strategy: 'ZERO_9' }, batch: 0 }));
  assert.match(
    message,
    /parallel\.strategy: expected the name of a strategy, got "ZERO_9"; did you mean "ZERO_1"/,
  );
  assert.match(message, /batch: .*got 0/);
  assert.match(thrown(() => parseTrainConfig({ model: 'huge' })).message, /model: .*tiny.*got "huge"/);
});

test('the error of a wrong strategy or model names the right one, also for names of other libraries', () => {
  const said = (strategy: string): string =>
    thrown(() => parseTrainConfig({ parallel: { strategy } })).message.replace(/^.*, got /, '');
  assert.equal(said('fullShard'), '"fullShard"; did you mean "FULL_SHARD"?');
  assert.equal(said('ZeRO 3'), '"ZeRO 3"; did you mean "FULL_SHARD"?');
  assert.equal(said('zero_stage_2'), '"zero_stage_2"; did you mean "ZERO_2"?');
  assert.equal(said('DDPX'), '"DDPX"; did you mean "DDP"?');
  assert.equal(said('ZERO_9'), '"ZERO_9"; did you mean "ZERO_1"?');
  assert.match(thrown(() => parseTrainConfig({ model: 'tny' })).message, /did you mean "tiny"\?$/);
});

test('heads that do not divide the dimension, and a vocabulary below the bytes, are refused', () => {
  const model = { kind: 'gpt', layers: 1, dim: 10, heads: 3, vocab: 300, seq: 8 };
  assert.match(thrown(() => parseTrainConfig({ model })).message, /dim 10 is not divisible by heads 3/);
  assert.match(
    thrown(() => parseTrainConfig({ model: { ...model, heads: 2, vocab: 100 } })).message,
    /vocab 100/,
  );
});

test('the error of a text names file, line, column and key', () => {
  const yaml = 'model: tiny\noptimizer:\n  lr: 0.1\n  epz: 1\nbatch: many\n';
  const { message } = thrown(() => parsed(yaml, 'run.yaml'));
  assert.match(message, /^run\.yaml:4:3: optimizer\.epz: unknown key; did you mean "eps"\?$/m);
  assert.match(
    message,
    /^run\.yaml:5:1: batch: expected a number, got "many"; write the rows of a rank and pass/m,
  );
});

test('YAML and JSON texts give the same config', () => {
  const yaml = parsed('model: bench\nparallel: { strategy: NO_SHARD }\n', 'a.yaml');
  const json = parsed('{"model": "bench", "parallel": {"strategy": "NO_SHARD"}}', 'a.json');
  assert.deepEqual(yaml, json);
});

test('a name is a preset, a model or a file; the error of a misspelled name gives the nearest', () => {
  assert.deepEqual(configNamed('bench'), PRESETS.bench);
  assert.deepEqual(configNamed('wan2.2-i2v-a14b'), { model: 'wan2.2-i2v-a14b' });
  const { message } = thrown(() => configNamed('lama3-8b'));
  assert.match(message, /lama3-8b is neither a preset, a model nor a file .*; did you mean llama3-8b\?$/);
});

test('the error of a text that is not YAML names line and column', () => {
  assert.match(thrown(() => parsed('a: [1,\nb', 'bad.yaml')).message, /^bad\.yaml:\d+:\d+: /);
});

test('two types for gradients on the wire are a contradiction, and the error names both settings', () => {
  const input = { mixedPrecision: { reduceDtype: 'bf16' }, parallel: { communicationDataType: 'fp16' } };
  const { code, message } = thrown(() => parseTrainConfig(input));
  assert.equal(code, 'CONFIG');
  assert.match(message, /communicationDataType is float16, but mixedPrecision.reduceDtype is bfloat16/);
  const same = { mixedPrecision: { reduceDtype: 'fp16' }, parallel: { communicationDataType: 'fp16' } };
  assert.equal(parseTrainConfig(same).mixedPrecision?.reduceDtype, 'float16');
});

test("the error of a setting in the wrong place, or with another library's name, gives its place here", () => {
  const cases: readonly [object, RegExp][] = [
    [{ strategy: 'FULL_SHARD' }, /^strategy: unknown key; write parallel\.strategy$/],
    [{ lr: 1 }, /^lr: .* optimizer\.lr$/],
    [{ zero_optimization: { stage: 3 } }, /'FULL_SHARD' \(ZeRO-3\)/],
    [{ parallel: { bucket_cap_mb: 25 } }, /bucketBytes, in bytes/],
    [{ gradient_accumulation_steps: 2 }, /unknown key; write accumulation/],
    [{ activationCheckpointing: { every_nth: 2 } }, /every_nth: unknown key; did you mean "everyNth"/],
  ];
  for (const [config, message] of cases)
    assert.match(thrown(() => parseTrainConfig(config)).message, message);
});

test('the error of a wrong value shows the forms of the setting', () => {
  const cases: readonly [unknown, RegExp][] = [
    ['tiny', /expected an object, got "tiny"; write \{ model: 'tiny'/],
    [
      { model: { layers: 2, dim: 16, heads: 2, vocab: 256, seq: 8 } },
      /^model\.kind: is missing; write 'gpt', 'moe', 'llama', 'dit', 't5-encoder' or 'python'$/,
    ],
    [{ mixedPrecision: true }, /got true; write 'bf16', 'fp16', \{ paramDtype/],
    [{ mixedPrecision: 'fp32' }, /got "fp32"; write .* null for float32$/],
    [{ mixedPrecision: { paramDtype: 'torch.bfloat16' } }, /did you mean "bfloat16"/],
    [{ parallel: { backwardPrefetch: 'none' } }, /or null$/],
    [{ parallel: { backwardPrefetch: 'BackwardPrefetch.BACKWARD_POST' } }, /did you mean "BACKWARD_POST"/],
    [{ offload: true }, /offload: expected an object, got true; write \{ optimizer: true \}/],
    [{ optimizer: { lr: Number.NaN } }, /optimizer\.lr: expected a number, got NaN$/],
    [{ schedule: { maxSteps: 'x' } }, /schedule\.maxSteps: expected a number/],
    [{ parallel: { mesh: [2, 2] } }, /write \{ dpReplicate: 2, dpShard: 2 \}/],
  ];
  for (const [config, message] of cases)
    assert.match(thrown(() => parseTrainConfig(config)).message, message);
});

test('models of every kind have defaults, and their settings are checked by key', () => {
  const dit = { kind: 'dit', layers: 1, dim: 16, heads: 2, ffn: 8, latent: [2, 4, 4] } as const;
  const shape = modelShape(parseTrainConfig({ model: { ...dit, latent: [2, 4, 4] } }));
  assert.ok(shape.kind === 'dit');
  assert.deepEqual([shape.patch, shape.textLen, shape.experts, shape.boundary], [[1, 2, 2], 512, 1, 0.875]);
  const llama = { kind: 'llama', layers: 1, dim: 16, heads: 4, vocab: 300, seq: 8 } as const;
  const cases: readonly [object, RegExp][] = [
    [
      { ...dit, latent: [2, 3, 4] },
      /^model\.latent: \[2,3,4\] is not divisible by patch \[1,2,2\] \(3 by 2\)/,
    ],
    [{ ...dit, latent: 4 }, /^model\.latent: .*got 4; write frames, rows and columns, as \[5, 8, 8\]$/],
    [{ ...dit, experts: 3 }, /^model\.experts: .*got 3/],
    [{ ...dit, boundary: 1 }, /^model\.boundary: .*got 1/],
    [
      { ...dit, heads: 16 },
      /^model\.heads: dim 16 \/ heads 16 is 1; it must be even, because rotary position embeddings rotate pairs/,
    ],
    [{ ...llama, kvHeads: 3 }, /^model\.kvHeads: heads 4 is not divisible by kvHeads 3/],
    [{ ...llama, kv_heads: 2 }, /^model\.kv_heads: unknown key; did you mean "kvHeads"\?$/],
    [{ ...llama, kind: 'lama' }, /^model\.kind: .*'llama'/],
  ];
  for (const [model, said] of cases) assert.match(thrown(() => parseTrainConfig({ model })).message, said);
  assert.match(thrown(() => parseTrainConfig({ model: 'llama-8b' })).message, /did you mean "llama3-8b"\?$/);
});

test('settings of own data that contradict each other or the model are refused with what to change', () => {
  const x = new Float32Array(4);
  const wrong: readonly (readonly [TrainConfigInput, RegExp])[] = [
    [{ data: {} }, /data: names no data; give one of path/],
    [{ data: { path: 'a.txt', tokens: new Uint8Array(9) } }, /data: names data twice/],
    [{ data: { path: 'a.csv', y: 'b' } }, /data\.y: needs x/],
    [{ data: { path: 'a.csv', x: 'a', y: x } }, /data\.y: must be of the same kind as x/],
    [{ data: { path: 'a.csv', x: 'a', y: 'b' } }, /data\.x: is for other models: a gpt trains on text/],
    [{ data: { path: 'pictures', format: 'images' } }, /data\.format: is for other models/],
    [{ data: { path: 'a.txt', seq: 7 } }, /data\.seq: 7 differs from model\.seq \d+; leave it out/],
    [
      { data: { path: 'a.txt', eosToken: '</s>' } },
      /data\.eosToken: <\/s> is a token of a tokenizer; give tokenizer/,
    ],
    [
      { data: { path: 'a.txt', validation: 2 } },
      /data\.validation: .*got 2; write 0\.1, '\.\/validation\.txt'/,
    ],
    [{ data: { path: 'a.txt', shufle: true } as never }, /data\.shufle: unknown key; did you mean "shuffle"/],
    [
      { data: { path: 'a.txt', drop_last: true } as never },
      /data\.drop_last: unknown key; did you mean "dropLast"/,
    ],
    [{ data: 7 as never }, /data: .*got 7; write '\.\/my\.txt', or \{ path: '\.\/texts'/],
  ];
  for (const [config, message] of wrong) {
    assert.throws(() => parseTrainConfig({ model: 'tiny', ...config }), { code: 'CONFIG', message });
  }
});

test('degrees of model parallelism that the model contradicts say what fits', () => {
  const model = { kind: 'gpt', layers: 5, dim: 8, heads: 2, vocab: 256, seq: 8 };
  const moe = { model: { ...model, kind: 'moe', experts: 6 } };
  const routed = (router: object) => ({ model: { ...moe.model, ...router } });
  const refused: readonly (readonly [parallel: object, message: RegExp, beside?: object])[] = [
    [{ pp: 2, microbatches: 3 }, /microbatches: 3 does not divide batch 4/],
    [{ pp: 2, virtualStages: 2 }, /2 stages per rank need parallel\.schedule 'interleaved'/],
    [{ pp: 2, schedule: 'interleaved', virtualStages: 1 }, /needs several stages per rank/],
    [
      { pp: 2, schedule: 'interleaved', microbatches: 1 },
      /1 microbatches are not a whole number of rounds with parallel\.pp 2/,
    ],
    [{ pp: 3, schedule: 'interleaved' }, /5 layers cannot be divided into 3 x 2 stages/, { batch: 3 }],
    [{ pp: 2 }, /kind 'moe' cannot be cut.*router 'temperature' derives its noise from the tokens/, moe],
    [{ pp: 2 }, /'expert-choice' compares the rows of a batch/, routed({ router: 'expert-choice' })],
    [{ pp: 2 }, /capacityFactor 1\.25 limits an expert to a share/, routed({ router: 'switch' })],
    [{ pp: 2 }, /auxLossWeight 0\.1 adds the aux/, routed({ router: 'topk', auxLossWeight: 0.1 })],
    [
      { cp: 2 },
      /'expert-choice' compares the rows.*of its own positions/,
      routed({ router: 'expert-choice' }),
    ],
    [{ cp: 2 }, /capacityFactor 1\.25 limits an expert to a share/, routed({ router: 'switch' })],
    [{ ep: 4 }, /4 ranks do not divide the model's 6 experts/, moe],
    [{ expertPlacement: {} }, /expertPlacement: has no effect with parallel\.ep 1/, moe],
    [
      { ep: 2, expertPlacement: { 'blocks.0.moe': { experts: [[0, 1, 2, 3, 4, 5]] } } },
      /'blocks.0.moe' has lists for 1 ranks, but ep is 2/,
      moe,
    ],
    [{ ep: 2, strategy: 'HYBRID_SHARD' }, /cannot have HYBRID_SHARD/, moe],
    [{ ep: 2 }, /kind 'gpt' has no experts to divide; give model\.kind 'moe'/],
    [
      { pp: 2 },
      /budgetBytes measures a forward of the whole model/,
      { activationCheckpointing: { budgetBytes: 1 } },
    ],
  ];
  for (const [parallel, message, beside = {}] of refused)
    assert.throws(() => parseTrainConfig({ model, parallel, ...beside }), { code: 'CONFIG', message });
});
