export type Written = Readonly<Record<string, unknown>>;

export const GPT = { kind: 'gpt', layers: 4, dim: 256, heads: 4, vocab: 512, seq: 64, attention: 'eager' };
const LLAMA = { ...GPT, kind: 'llama', kvHeads: 4 };
const DIT = { kind: 'dit', layers: 2, dim: 256, heads: 4, ffn: 512, latent: [4, 8, 8], attention: 'eager' };
/** Moving shapes have 48 channels of 1 x 4 x 4 pixels. */
const VIDEOS = { model: { ...DIT, inChannels: 48, outChannels: 48 }, data: 'moving-shapes' };
const T5 = { kind: 't5-encoder', layers: 2, dim: 256, heads: 4, ffn: 512, vocab: 512 };

const PP = { parallel: { pp: 2 } };

/** Values of a setting other than the default, each with the settings that it needs. */
export const OTHERS: Readonly<Record<string, readonly (readonly [value: unknown, beside?: Written])[]>> = {
  model: [['bench']],
  'parallel.strategy': [['NO_SHARD'], ['ZERO_1'], ['SHARD_GRAD_OP'], ['_HYBRID_SHARD_ZERO2']],
  'parallel.mesh': [
    [{ dpReplicate: 8, dpShard: 2 }, { parallel: { strategy: 'HYBRID_SHARD' } }],
    [{ dpReplicate: 4, dpShard: 2 }, { parallel: { strategy: 'HYBRID_SHARD' } }],
    [{ dpReplicate: 8, dpShard: 2 }],
    [{ dpReplicate: 2, dpShard: 3 }, { parallel: { strategy: 'HYBRID_SHARD' } }],
  ],
  'parallel.reshardAfterForward': [
    [false],
    [true],
    [4],
    [true, { parallel: { strategy: 'SHARD_GRAD_OP' } }],
    [false, { parallel: { strategy: 'HYBRID_SHARD' } }],
    [false, { parallel: { strategy: 'NO_SHARD' } }],
  ],
  'parallel.wrap': [['root'], ['linear'], ['moe'], [{ minNumParams: 1000 }]],
  'parallel.unitStrategies': [[[{ modules: 'wte', strategy: 'NO_SHARD' }]]],
  'parallel.ignoredModules': [[['wte']]],
  'parallel.bucketBytes': [[1000], [1000, { parallel: { strategy: 'NO_SHARD' } }]],
  'parallel.noSync': [[true], [false, { accumulation: 2 }], [true, { accumulation: 2 }]],
  'parallel.communicationDataType': [['bf16'], ['fp16', { parallel: { strategy: 'ZERO_2' } }]],
  'parallel.commHook': [
    [{ kind: 'powerSGD' }, { parallel: { strategy: 'NO_SHARD' } }],
    [{ kind: 'topK', ratio: 0.001 }, { parallel: { strategy: 'NO_SHARD' } }],
  ],
  'parallel.tp': [[2]],
  'parallel.cp': [[2]],
  'parallel.cpKind': [['ring'], ['ring', { parallel: { cp: 2 } }]],
  'parallel.ep': [[2], [2, { model: { like: 'Qwen3-30B-A3B', seq: 128 } }]],
  'parallel.expertPlacement': [[{ 'blocks.0.moe': { experts: [[0], [1]] } }]],
  'parallel.pp': [[2]],
  'parallel.schedule': [['gpipe'], ['gpipe', PP], ['interleaved', PP], ['zb', PP]],
  'parallel.virtualStages': [
    [2],
    [4, { model: { ...GPT, layers: 8 }, parallel: { pp: 2, schedule: 'interleaved' } }],
  ],
  'parallel.microbatches': [[2], [2, PP]],
  'parallel.stageSplit': [['parameters'], ['time', PP], [[3, 1], PP]],
  'parallel.sequenceParallel': [[true], [true, { parallel: { tp: 2 } }]],
  mixedPrecision: [['bf16'], ['fp16']],
  'mixedPrecision.paramDtype': [['bf16']],
  'mixedPrecision.reduceDtype': [['bf16'], ['fp32', { mixedPrecision: { paramDtype: 'bf16' } }]],
  gradScaler: [[true], [{ initScale: 2 }]],
  'offload.optimizer': [[true]],
  'offload.parameters': [[true], [true, { parallel: { strategy: 'NO_SHARD' } }]],
  activationCheckpointing: [
    ['full'],
    ['selective'],
    [{ everyNth: 1 }],
    [{ everyNth: 2 }],
    [{ saveOps: ['matMul'] }],
    [{ budgetBytes: 1 }],
  ],
  data: [['synthetic'], ['./my.txt'], ['moving-shapes', { model: VIDEOS.model }]],
  movingShapes: [[{ colors: 2 }, VIDEOS]],
  textEncoder: [
    [{}, VIDEOS],
    [{ fsdp: false }, VIDEOS],
  ],
  loss: [['function']],
  accumulation: [[2], [2, PP]],
  'optimizer.betas': [[[0.5, 0.5]]],
  'optimizer.amsgrad': [
    [true],
    [true, { optimizer: { kind: 'adam' } }],
    [true, { optimizer: { kind: 'lion' } }],
  ],
  'optimizer.weightDecay': [[0], [0, { optimizer: { kind: 'sgd' } }]],
  'optimizer.momentum': [[0.5], [0.5, { optimizer: { kind: 'sgd' } }]],
  'optimizer.nesterov': [[true], [true, { optimizer: { kind: 'sgd', momentum: 0.5 } }]],
  'optimizer.groups': [[[{ parameters: 'bias', weightDecay: 0 }]]],
  'optimizer.blockSize': [[16], [16, { optimizer: { kind: 'adamW8bit' } }]],
  schedule: [[{ maxSteps: 100 }], [{ kind: 'wsd' }]],
  frozen: [[['blocks.0']]],
  lora: [[{}], [{ targets: ['qkv'] }]],
  dpo: [[{}, { dpo: { beta: 0.2 }, data: { preferences: './pairs.jsonl' } }]],
};

/** Settings of models, with a model that has them. */
export const MODELS: Readonly<Record<string, readonly (readonly [model: Written, other: unknown])[]>> = {
  kind: [[GPT, 'llama']],
  from: [[GPT, './folder']],
  like: [[GPT, 'gpt2']],
  className: [[DIT, 'WanTransformer3DModel']],
  python: [[GPT, './net.py']],
  class: [[GPT, 'Net']],
  options: [[GPT, {}]],
  layers: [[GPT, 6]],
  dim: [[GPT, 512]],
  heads: [[GPT, 8]],
  vocab: [[GPT, 1024]],
  seq: [[GPT, 128]],
  tied: [
    [GPT, false],
    [LLAMA, true],
  ],
  ffn: [
    [GPT, 512],
    [LLAMA, 512],
  ],
  attention: [
    [GPT, 'flash'],
    [LLAMA, 'flash'],
    [DIT, 'flash'],
  ],
  experts: [[DIT, 2]],
  router: [[GPT, 'topk']],
  topK: [[GPT, 2]],
  capacityFactor: [[GPT, 1]],
  auxLossWeight: [[GPT, 0.1]],
  biasUpdateRate: [[GPT, 0.1]],
  kvHeads: [[LLAMA, 2]],
  qkvBias: [[LLAMA, true]],
  ropeTheta: [[LLAMA, 500]],
  normEps: [
    [LLAMA, 0.1],
    [DIT, 0.1],
    [T5, 0.1],
  ],
  latent: [[DIT, [4, 16, 16]]],
  patch: [[DIT, [1, 4, 4]]],
  inChannels: [[DIT, 36]],
  outChannels: [[DIT, 36]],
  freqDim: [[DIT, 128]],
  textDim: [[DIT, 128]],
  textLen: [[DIT, 128]],
  audioLayers: [[DIT, [0]]],
  audioDim: [[{ ...DIT, audioLayers: [0] }, 8]],
  audioTokens: [[{ ...DIT, audioLayers: [0] }, 2]],
  boundary: [[DIT, 0.5]],
  attnDim: [[T5, 512]],
  relativeBuckets: [[T5, 64]],
  relativeDistance: [[T5, 64]],
};
