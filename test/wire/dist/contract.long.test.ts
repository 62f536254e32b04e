import { contractOver } from './contract-suite';

for (const world of [2, 3]) contractOver('shared-memory', world);
for (const world of [2, 4]) contractOver('zeromq', world);
