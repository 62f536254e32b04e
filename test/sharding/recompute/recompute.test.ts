import { recomputeSuite } from './recompute-suite';

recomputeSuite({ world: 1, blas: 'none', strategies: ['NO_SHARD'] });
