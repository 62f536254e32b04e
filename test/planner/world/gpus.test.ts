import assert from 'node:assert/strict';
import { test } from 'node:test';
import { GPUS, type Gpu, hardwareOf } from '../../../src/planner/hardware';
import { predict } from '../../../src/planner/predict';
import { layoutOfLine } from '../../support/batch-lines';

/** Names that practitioners write, with the board that is meant. */
const NAMES = {
  'A100-40GB': 'A100-40G',
  A800: 'A800-80G',
  'H100 PCIe 80GB': 'H100-PCIe-80G',
  'H100-NVL-94GB': 'H100-NVL-94G',
  H800: 'H800-80G',
  H20: 'H20-96G',
  H200: 'H200-141G',
  B200: 'B200-180G',
  GB200: 'GB200-186G',
  L40S: 'L40S-48G',
  L20: 'L20-48G',
  A10: 'A10-24G',
  'RTX 3090': 'RTX3090-24G',
  'RTX 4090': 'RTX4090-24G',
  'RTX 5090': 'RTX5090-32G',
  MI250X: 'MI250X-64G',
  'AMD Instinct MI300X': 'MI300X-192G',
  'Ascend 910B': 'Ascend-910B-64G',
} as const;

test('the GPUs that practitioners name are known', () => {
  for (const [name, known] of Object.entries(NAMES)) assert.equal(hardwareOf(name).name, known);
});

test('every GPU has figures that agree with each other, and says where they were published', () => {
  for (const [name, gpu] of Object.entries<Gpu>(GPUS)) {
    assert.ok(name.endsWith(`-${gpu.memoryGB}G`) || name.includes('96G-grand'), name);
    // GeForce boards run faster than the clock of their data sheet.
    assert.ok(gpu.gemmTflops / gpu.tflops > 0.45 && gpu.gemmTflops / gpu.tflops < 1.16, name);
    assert.ok(gpu.sources.figures.length > 0, name);
    const { seconds, fits } = predict(layoutOfLine({ model: 'gpt2', hardware: name, gpus: 8 }));
    assert.ok(fits && seconds.value > 0, name);
  }
});

test('a lower power limit lowers the rate of matmuls as that of the H100 with 500 W; a given rate stays', () => {
  const at = (hardware: object) => layoutOfLine({ model: 'gpt2', hardware }).hardware.gemmTflops;
  assert.equal(at({ like: 'H100-80G', powerW: 700 }), 794);
  assert.ok(Math.abs(at({ like: 'H100-80G', powerW: 500 }) - 620) < 1e-9);
  assert.ok(Math.abs(at({ like: 'A100-80G', powerW: 350 }) - 245.7) < 0.1);
  assert.equal(at({ like: 'H100-80G', powerW: 1e6 }), 794, 'more than the board draws');
  assert.equal(at({ like: 'A100-80G', powerW: 350, gemmTflops: 260 }), 260);
});
