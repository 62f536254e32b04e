import assert from 'node:assert/strict';
import { test } from 'node:test';
import { configWarnings } from '../../src/config/config-warnings';
import { gradScalerOf } from '../../src/config/settings/precision';
import { parseTrainConfig, type TrainConfigInput } from '../../src/config/train-config';

const warnings = (input: TrainConfigInput): string[] => configWarnings(input, parseTrainConfig(input), 2);

test('settings that have an effect give no warning', () => {
  assert.deepEqual(warnings({}), []);
  assert.deepEqual(warnings({ mixedPrecision: 'bf16' }), []);
  assert.deepEqual(warnings({ mixedPrecision: { paramDtype: 'fp16', keepLowPrecisionGrads: true } }), []);
});

test('settings without an effect are named in a warning with the reason', () => {
  const found = warnings({
    mixedPrecision: { bufferDtype: 'bf16', keepLowPrecisionGrads: true, castForwardInputs: false },
    gradScaler: true,
  });
  const [buffers, casts, grads, scaler] = found;
  assert.equal(found.length, 4);
  assert.match(buffers ?? '', /bufferDtype bfloat16 has no effect: the model has no buffers/);
  assert.match(grads ?? '', /keepLowPrecisionGrads has no effect: gradients are reduced in float32/);
  assert.match(casts ?? '', /castForwardInputs false has no effect/);
  assert.match(scaler ?? '', /nothing here is float16/);
  assert.match(warnings({ mixedPrecision: 'fp16', gradScaler: false })[0] ?? '', /gradScaler is off/);
});

test('the error of an unknown key of a policy or a scaler names the nearest key', () => {
  const message = (input: object): string => {
    try {
      parseTrainConfig(input);
    } catch (error) {
      return error instanceof Error ? error.message : '';
    }
    return '';
  };
  assert.match(
    message({ mixedPrecision: { paramDtpye: 'bf16' } }),
    /paramDtpye: unknown key; did you mean "paramDtype"/,
  );
  assert.match(message({ gradScaler: { initScal: 3 } }), /initScal: unknown key; did you mean "initScale"/);
});

test('a config has a GradScaler if it uses float16 or sets gradScaler', () => {
  const scaler = (input: TrainConfigInput) => gradScalerOf(parseTrainConfig(input));
  assert.equal(scaler({}), null);
  assert.equal(scaler({ mixedPrecision: 'bf16' }), null);
  assert.equal(scaler({ mixedPrecision: 'fp16', gradScaler: false }), null);
  const torchs = { initScale: 65536, growthFactor: 2, backoffFactor: 0.5, growthInterval: 2000 };
  assert.deepEqual(scaler({ mixedPrecision: 'fp16' }), torchs);
  assert.deepEqual(scaler({ parallel: { communicationDataType: 'fp16' } }), torchs);
  assert.deepEqual(scaler({ gradScaler: { growthInterval: 10 } }), { ...torchs, growthInterval: 10 });
});
