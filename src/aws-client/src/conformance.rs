//! What every backend must do: the same assertions run on the in-memory account here and on an emulator in the
//! end-to-end suite, so that the fake is held to what somebody else implemented.
