import { testSettings } from './settings-parity';

for (const world of [1, 2, 3, 4]) testSettings(world, 'all');
