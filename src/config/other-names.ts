/** What other libraries call our values. Source: torch.distributed (DDP, FSDP), DeepSpeed (ZeRO's stages). */
const OTHER_NAMES: Readonly<Record<string, string>> = {
  ddp: 'NO_SHARD',
  zero0: 'NO_SHARD',
  zero1: 'ZERO_1',
  zero2: 'ZERO_2',
  zero3: 'FULL_SHARD',
  fsdp: 'FULL_SHARD',
  fsdp2: 'FULL_SHARD',
  hsdp: 'HYBRID_SHARD',
  adamw: 'adamW',
  adam8bit: 'adamW8bit',
  adamw8bit: 'adamW8bit',
};

/** What other libraries call our settings, and where they are here. Source: FSDP's arguments; DeepSpeed's and transformers' keys. */
const OTHER_KEYS: Readonly<Record<string, string>> = {
  shardingstrategy: "parallel.strategy, as 'FULL_SHARD'",
  stage: "parallel.strategy: 'ZERO_1', 'ZERO_2' or 'FULL_SHARD' (ZeRO-3)",
  zerostage: "parallel.strategy: 'ZERO_1', 'ZERO_2' or 'FULL_SHARD' (ZeRO-3)",
  zerooptimization: "parallel.strategy: 'ZERO_1', 'ZERO_2' or 'FULL_SHARD' (ZeRO-3)",
  autowrappolicy: "parallel.wrap, as 'blocks'",
  bucketcapmb: 'parallel.bucketBytes, in bytes',
  cpuoffload: 'offload, as { parameters: true }',
  offloadoptimizer: 'offload.optimizer: true',
  offloadparam: 'offload.parameters: true',
  bf16: "mixedPrecision: 'bf16'",
  fp16: "mixedPrecision: 'fp16'",
  mppolicy: "mixedPrecision, as { paramDtype: 'bf16', reduceDtype: 'fp32' }",
  gradientcheckpointing: "activationCheckpointing: 'full'",
  gradientaccumulationsteps: 'accumulation',
  gradientclipping: 'clipNorm',
  maxgradnorm: 'clipNorm',
  trainmicrobatchsizepergpu: 'batch, of a rank and micro-batch',
  perdevicetrainbatchsize: 'batch, of a rank and micro-batch',
  batchsize: 'batch, of a rank and micro-batch',
  learningrate: 'optimizer.lr',
  numtrainepochs: 'run.step(n): data has no end here, and a run has steps',
  epochs: 'run.step(n): data has no end here, and a run has steps',
};

/** Our value for another library's name, in any spelling ('ZeRO-3'); undefined where it has none. */
export function fromOtherName(word: string): string | undefined {
  return lookedUp(OTHER_NAMES, spelled(word).replaceAll('stage', ''));
}

/** Where a setting of another library is here, in any spelling ('gradient_accumulation_steps'); undefined where it has no name. */
export function settingFromOtherName(word: string): string | undefined {
  return lookedUp(OTHER_KEYS, spelled(word));
}

function spelled(word: string): string {
  return word.toLowerCase().replaceAll(/[-_ ]/g, '');
}

function lookedUp(names: Readonly<Record<string, string>>, word: string): string | undefined {
  return Object.hasOwn(names, word) ? names[word] : undefined;
}
