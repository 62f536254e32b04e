/** How a setting with several forms, or an object, is written: what a message about a wrong value ends with. By path. */
export const FORMS: Readonly<Record<string, string>> = {
  '': "{ model: 'tiny', parallel: { strategy: 'FULL_SHARD' } }",
  model:
    "'tiny', 'bench', a published model's name as 'llama3-8b', or " +
    "{ kind: 'gpt', layers: 2, dim: 64, heads: 4, vocab: 256, seq: 32 }; 'moe' has experts too, 'llama' kvHeads and ffn, " +
    "'dit' ffn and latent in place of vocab and seq",
  'model.kind': "'gpt', 'moe', 'llama', 'dit' or 't5-encoder'",
  'model.latent': 'frames, rows and columns, as [5, 8, 8]',
  'model.patch': 'frames, rows and columns, as [1, 2, 2]',
  parallel: "{ strategy: 'FULL_SHARD' }",
  'parallel.mesh': '{ dpReplicate: 2, dpShard: 2 }',
  'parallel.reshardAfterForward': 'true, false, a number of ranks from 2, or null',
  'parallel.wrap':
    "'blocks', 'root', 'linear', 'moe', { minNumParams: 1e5 }, { layerCls: ['Block'] } or { modules: ['blocks.*'] }",
  'parallel.backwardPrefetch': "'BACKWARD_PRE', 'BACKWARD_POST' or null",
  'parallel.unitStrategies': "[{ modules: 'blocks.*', strategy: 'SHARD_GRAD_OP' }]",
  mixedPrecision: "'bf16', 'fp16', { paramDtype: 'bf16', reduceDtype: 'fp32' }, or null for float32",
  gradScaler: 'true, false, { initScale: 65536 } or null',
  offload: '{ optimizer: true }, { parameters: true } or { activations: true }',
  activationCheckpointing:
    "'full', 'selective', { everyNth: 4 }, { saveOps: ['matMul'] }, { budgetBytes: 1e6 } or null",
  optimizer: "{ kind: 'adamW', lr: 1e-3 }",
  schedule: '{ warmupSteps: 10, maxSteps: 100, etaMin: 1e-5 } or null',
  clipNorm: 'a number above 0, or null for none',
};
