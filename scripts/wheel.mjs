import { runMain } from './lib/step.mjs';
import { makeWheel } from './lib/wheel.mjs';

await runMain(makeWheel);
