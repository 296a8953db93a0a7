#include "crew.hpp"

#include <algorithm>

namespace kbforge {

Crew::Crew(std::size_t workers) {
  for (std::size_t worker = 1; worker < workers; ++worker) {
    threads_.emplace_back([this, worker] { wait_for_work(worker); });
  }
}

Crew::~Crew() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    over_ = true;
  }
  begun_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void Crew::share(std::size_t n, std::size_t at_once,
                 const std::function<void(std::size_t, std::size_t)>& task) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    task_ = &task;
    n_ = n;
    at_once_ = at_once;
    next_ = 0;
    busy_ = threads_.size();
    ++round_;
  }
  begun_.notify_all();
  work(0);
  std::unique_lock<std::mutex> lock(mutex_);
  ended_.wait(lock, [this] { return busy_ == 0; });
}

void Crew::wait_for_work(std::size_t worker) {
  std::size_t seen = 0;
  for (;;) {
    {
      std::unique_lock<std::mutex> lock(mutex_);
      begun_.wait(lock, [&] { return over_ || round_ != seen; });
      if (over_) return;
      seen = round_;
    }
    work(worker);
    const std::lock_guard<std::mutex> lock(mutex_);
    if (--busy_ == 0) ended_.notify_one();
  }
}

void Crew::work(std::size_t worker) {
  for (std::size_t begin; (begin = next_.fetch_add(at_once_)) < n_;) {
    const std::size_t end = std::min(n_, begin + at_once_);
    for (std::size_t k = begin; k < end; ++k) (*task_)(worker, k);
  }
}

}  // namespace kbforge
