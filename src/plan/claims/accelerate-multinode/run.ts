import { once } from 'node:events';
import { connect, createServer } from 'node:net';
import { refuseOtherFormats } from '../../../checkpoint/format/not-safetensors';
import { shapeOf } from '../../model-shape';
import { modelOf } from '../../models';
import type { PlanRequestInput } from '../../request';
import { claimOf } from '../claim';
import { type ClaimEntry, type Experiment, fact } from '../entry';
import { holdsOr, onlyIf } from '../finding';
import { planCell } from '../plan-cell';
import { MODEL_PATHS } from './document-files';

/** The image-to-video model, which has 36 input channels; text-to-video has 16. */
const I2V = shapeOf(modelOf('wan2.2-i2v-a14b'));
const ONE_EXPERT = I2V.params / I2V.experts;

/** The largest file of weights by default, in bytes. Source: diffusers' save_pretrained, max_shard_size. */
const FILE_BYTES = 10e9;
const FP32_BYTES = 4;

/** A port of this machine while a process listens, and afterwards. */
export const port: Experiment = {
  name: 'A port that answers and one that does not',
  async run() {
    const server = createServer((socket) => socket.end());
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const address = server.address();
    const listening = typeof address === 'object' && address !== null ? address.port : 0;
    const answered = await answers(listening);
    server.close();
    await once(server, 'close');
    return { listening: Number(answered), closed: Number(await answers(listening)) };
  },
};

/** Whether a process accepts a connection at a port of this machine. */
async function answers(number: number): Promise<boolean> {
  const socket = connect(number, '127.0.0.1');
  try {
    await once(socket, 'connect');
    return true;
  } catch {
    return false;
  } finally {
    socket.destroy();
  }
}

/** Tokens of a video of 49 frames of 832 x 480, the usual size of such an example: 13 latent frames of 30 x 52 patches. */
const FRAMES_49 = 13 * 30 * 52;

/** Full fine-tuning of one expert with the settings of the document's YAML. */
const TRAINING: PlanRequestInput = {
  model: { ...modelOf('wan2.2-i2v-a14b'), experts: 1 },
  hardware: 'A100-80G',
  gpus: 32,
  parallel: { strategy: 'ZERO_2', stack: 'deepspeed' },
  batch: { global: 32, micro: 1 },
  recompute: 'full',
  offload: { optimizer: true },
  seq: FRAMES_49,
};

/** Weights, ports and the run itself. */
export const ACCELERATE_RUN: readonly ClaimEntry[] = [
  {
    claim: claimOf('acc.reachable'),
    expected: { verdict: 'holds', value: 1, within: 0 },
    experiment: port,
    check(_, facts) {
      const isRight = fact(facts, 'listening') === 1 && fact(facts, 'closed') === 0;
      return {
        verdict: holdsOr(isRight, 'off'),
        measured: fact(facts, 'listening') - fact(facts, 'closed'),
        unit: 'answers more while the process runs',
        by: '',
        why:
          'The port answers only after the main process has begun to listen, so test it after that. The test does not cover the ports ' +
          'that NCCL chooses itself between all machines.',
        evidence: { kind: 'run', source: '$ npx shardlab doctor --reach 127.0.0.1:12345' },
      };
    },
  },
  {
    claim: claimOf('acc.weights'),
    expected: { verdict: 'holds', value: 6, within: 0 },
    check() {
      const files = MODEL_PATHS.flatMap((entry) => (typeof entry === 'string' ? [] : entry));
      const parts = files.map((file) => Number(/-(\d+)-of-00006/.exec(file)?.[1]));
      const isWhole = [1, 2, 3, 4, 5, 6].every((part) => parts.includes(part));
      const predicted = Math.ceil((ONE_EXPERT * FP32_BYTES) / FILE_BYTES);
      return {
        verdict: holdsOr(isWhole && predicted === files.length, 'off'),
        predicted,
        unit: 'files',
        by: '',
        why:
          'The sentence is about the list of paths: it is complete, 1 to 6 of 6, and has the right length: 14.3B parameters in fp32 are 57.2 GB, which needs 6 files of at most ' +
          '10 GB. The encoder and the VAE in the list are .pth pickles, not safetensors.',
        evidence: { kind: 'formula', source: 'Math.ceil((14_288_901_184 * 4) / 10e9)' },
      };
    },
  },
  {
    claim: claimOf('acc.time'),
    expected: { verdict: 'holds only if', value: 50, within: 25 },
    check(lab) {
      const { seconds } = lab.predict(TRAINING);
      const steps = (minutes: number, each: number): number => (60 * minutes) / each;
      const fifty = (50 * seconds.value) / 60;
      const isBetween = (minutes: number): boolean => minutes >= 10 && minutes <= 20;
      const [low, high] = [steps(10, seconds.value), steps(20, seconds.value)];
      return {
        verdict: onlyIf(isBetween(fifty), isBetween(10 * fifty)),
        condition: `it is about ${low.toFixed(0)} to ${high.toFixed(0)} steps of 49 frames on A100`,
        otherwise: `a step takes ${seconds.value.toFixed(0)} s, so 500 steps take ${((10 * fifty) / 60).toFixed(1)} hours`,
        predicted: {
          value: steps(15, seconds.value),
          low: steps(10, seconds.high),
          high: steps(20, seconds.low),
        },
        unit: 'steps in that time',
        by: '',
        why: `The document states neither the GPUs nor the number of samples. With one sample of 49 frames at 832 x 480 per A100 and one whole expert trained, a step is predicted to take ${seconds.value.toFixed(0)} s. The number counts steps in 10 to 20 minutes, without the time to load 57 GB.`,
        evidence: { kind: 'prediction', source: planCell(TRAINING) },
      };
    },
  },
  {
    claim: claimOf('acc.expert'),
    expected: { verdict: 'contradicts itself', value: 14_288_901_184, within: 0 },
    check() {
      const experts = new Set(MODEL_PATHS.flat().flatMap((file) => /(high|low)_noise/.exec(file)?.[0] ?? []));
      return {
        verdict: holdsOr(experts.size === 2, 'contradicts itself'),
        predicted: ONE_EXPERT,
        unit: 'parameters',
        by: 'the model is I2V with two experts; the script is T2V, and the list has one',
        why:
          'The list has six files of high_noise_model and none of low_noise_model: half of the published 28.6B, which is used for timesteps ' +
          'from 0.9 on. I2V has 36 input channels, T2V has 16, so the model matters: a T2V script has no input for the image.',
        evidence: {
          kind: 'formula',
          source: `const [d, ffn] = [5120, 13_824];
const block = 8 * d * (d + 1) + 2 * d * ffn + ffn + d + 4 * d + 2 * d + 6 * d;
const text = 4096 * d + d + d * d + d, time = 256 * d + d + d * d + d + 6 * d * d + 6 * d;
40 * block + (36 * 4 * d + d) + text + time + (d * 64 + 64 + 2 * d)`,
        },
      };
    },
  },
  {
    claim: claimOf('acc.lfs'),
    expected: { verdict: 'holds only if', value: 135, within: 0 },
    check() {
      const refused = refusalOf(POINTER);
      return {
        verdict: onlyIf(refused.includes('git lfs pull'), false),
        condition: 'the data were cloned with git',
        otherwise: 'after modelscope download there is no repository to pull from: download again',
        predicted: Buffer.byteLength(POINTER),
        unit: 'bytes',
        by: '',
        why: 'A file of a few hundred bytes may be a pointer, a text of about 130 bytes that begins with "version https://git-lfs" (the specification allows less than 1,024); loaded as safetensors, this library refuses it with this advice. But the document downloads the data with modelscope, which leaves no clone.',
        evidence: {
          kind: 'run',
          source:
            '$ head -c 43 diffusion_pytorch_model-00001-of-00006.safetensors # "version https://git-lfs.github.com/spec/v1": git lfs pull',
        },
      };
    },
  },
];

/** A pointer to a file whose size in bytes has ten digits. Source: git-lfs, docs/spec.md. */
const POINTER = `version https://git-lfs.github.com/spec/v1
oid sha256:${'4d7a214614ab2935c943f9e0ff69d22e'.repeat(2)}
size 9994119944
`;

function refusalOf(text: string): string {
  try {
    refuseOtherFormats('weights.safetensors', Buffer.from(text));
    return '';
  } catch (error) {
    return error instanceof Error ? error.message : '';
  }
}
