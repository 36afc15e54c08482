//! Prerequisites as one value: plan against the account, apply, destroy, render.
