import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CALIBRATION } from '../../src/planner/calibration';
import { fitHardware, parseMeasured } from '../../src/planner/fit-hardware';
import { parseCalibration, withCalibration } from '../../src/planner/hardware-calibration';
import { layoutOf, plannedInput } from '../../src/planner/plan-input';

const measured = parseMeasured({
  device: 'cuda',
  name: 'NVIDIA A100-SXM4-80GB',
  torch: '2.6.0',
  memory_bytes: 85.1e9,
  gpus: 4,
  gemm: [
    { m: 8192, n: 8192, k: 8192, dtype: 'torch.bfloat16', tflops: 260 },
    { m: 2048, n: 2048, k: 2048, dtype: 'torch.bfloat16', tflops: 190 },
  ],
  memory: [
    { op: 'copy', tb_s: 1.7 },
    { op: 'add', tb_s: 1.6 },
    { op: 'gelu', tb_s: 1.5 },
  ],
  launch_us: 4.1,
  all_reduce: [
    { bytes: 2 ** 20, seconds: 1e-4, bus_gb_s: 20 },
    { bytes: 2 ** 28, seconds: 2e-3, bus_gb_s: 210 },
  ],
});

test('the fitted figures reproduce the measurements in the cost model', () => {
  const fitted = fitHardware(measured);
  assert.equal(fitted.like, 'A100-80G');
  assert.equal(fitted.gemmTflops, 260);
  assert.equal((fitted.hbmTBps ?? 0) * CALIBRATION.memoryEfficiency, 1.6);
  assert.equal((fitted.linkGBps ?? 0) * CALIBRATION.linkEfficiency, 210);
  assert.equal(Math.round(fitted.memoryGB ?? 0), 80);
  assert.equal(fitted.gpusPerNode, 4);
  assert.deepEqual(fitted.notes, []);
});

test('one GPU gives no figure of the link, and an unknown GPU is named after the nearest known one', () => {
  const alone = fitHardware({
    ...measured,
    name: 'NVIDIA Quadro RTX 8000',
    memory_bytes: 47.7e9,
    gpus: 1,
    all_reduce: [],
  });
  assert.equal(alone.like, 'L40S-48G');
  const board = { ...measured, name: 'NVIDIA A100 80GB PCIe', gpus: 1, all_reduce: [] };
  assert.equal(fitHardware(board).like, 'A100-PCIe-80G');
  assert.equal(alone.linkGBps, undefined);
  assert.match(
    alone.notes.join('\n'),
    /RTX 8000 is not a known kind of GPU[\s\S]*is planned with its published bandwidth/,
  );
});

test('a calibration is read back from its file and changes the plan', () => {
  const kept = parseCalibration(JSON.parse(JSON.stringify(fitHardware(measured))), 'a100.json');
  const { hardware } = plannedInput({ model: 'gpt2', gpus: 4 }, {}, { calibration: kept }).layout;
  assert.deepEqual([hardware.gemmTflops, hardware.gpusPerNode, hardware.tflops], [260, 4, 312]);
  const stated = withCalibration({ hardware: { like: 'A100-80G', gemmTflops: 240 } }, kept);
  assert.equal(layoutOf({ model: 'gpt2', ...stated }).hardware.gemmTflops, 240);
});

test('a calibration of another GPU, and a file that is not a calibration, are refused', () => {
  const kept = fitHardware(measured);
  assert.throws(() => withCalibration({ hardware: 'H100-80G' }, kept), /is of A100-80G, .* is H100-80G/);
  assert.throws(() => parseCalibration({ gemmTflops: 3 }, 'x.json'), /x\.json is not a calibration \(like: /);
  assert.throws(() => parseCalibration({ like: 'A100' }, 'x.json'), /like: 'A100' is not known/);
  assert.throws(() => parseMeasured({ device: 'cuda' }), /the output of the measurement lacks name, /);
});
